"""Comparisons: what they count, refuse and keep, in Python and on the command line."""

import pathlib
import re
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing

METHODS = lm.methods


def small(loss=None):
    return low_rank_sensing(0, shape=(8, 7), rank=3, measurements=150, loss=loss)


def test_comparison_counts_steps_passes_and_refusals():
    instance = small(lm.losses.SquaredL2())
    comparison = lm.compare(
        instance.problem,
        {
            "LMM": METHODS.lmm(),
            "AGN": METHODS.approximate_gauss_newton(),
            "PrecGD": METHODS.prec_gd(),
        },
        instance.x0,
        tol=1e-22,
        metrics={"error": instance.error},
    )
    rows = {row["method"]: row for row in comparison.table("error")}
    assert set(rows) == {"LMM", "AGN"}
    assert "LowRank" in comparison.refused["PrecGD"]
    for row in rows.values():
        assert row["last"] <= 1e-9
        share = row["steps_to_accuracy"] / row["steps"]
        assert row["seconds_to_accuracy"] == pytest.approx(share * row["seconds"])
    reached = rows["AGN"]["steps_to_accuracy"]
    # Four passes a step, and two to see that the last iterate is good.
    assert rows["AGN"]["passes_to_accuracy"] == 4 * reached + 2
    assert not comparison.interrupted
    assert comparison.problem == "LowRank, dims (8, 7), rank 3, SquaredL2"
    with pytest.raises(KeyError, match="The trace has no metric 'nope'; there are"):
        comparison.table(metric="nope")


def test_a_comparison_is_printed_as_its_table():
    instance = small()
    methods = {"LMM": METHODS.lmm(), "PrecGD": METHODS.prec_gd()}
    comparison = lm.compare(instance.problem, methods, instance.x0, max_steps=3)
    header, row, refusal = repr(comparison).splitlines()
    assert header.endswith("best value")
    assert row.split()[:3] == ["LMM", "STEP_LIMIT", "3"]
    assert refusal.split(maxsplit=2)[:2] == ["PrecGD", "refused:"]
    assert str(comparison) == repr(comparison)


def test_the_example_of_the_methods_page_runs(tmp_path):
    page = pathlib.Path(__file__).parent.parent / "docs" / "methods" / "README.md"
    (block,) = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", block], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].isdigit()
    assert (tmp_path / "compare.png").stat().st_size > 1000


def test_what_does_not_fit_is_left_out():
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(3000, 1), np.zeros((3000, 3000)))
    methods = {"prox": METHODS.prox_linear(), "GD": METHODS.polyak_subgradient()}
    comparison = lm.compare(problem, methods, np.ones((3000, 1)), max_steps=0)
    assert "needs" in comparison.refused["prox"]
    assert set(comparison.results) == {"GD"}


def test_an_exception_names_the_method_and_keeps_the_runs():
    instance = small()
    methods = {"LMM": METHODS.lmm(), "slow": METHODS.polyak_subgradient(), "GN": METHODS.lmm()}
    with pytest.raises(lm.SolveError, match=r"^slow: STAGNATED: The value") as caught:
        lm.compare(instance.problem, methods, instance.x0, max_steps=300, tol=1e-12, throw=True)
    assert caught.value.method == "slow"
    assert caught.value.status is lm.Status.STAGNATED
    assert set(caught.value.comparison.results) == {"LMM", "slow"}
    assert caught.value.comparison.not_run == ("GN",)


def interrupting(snapshot):
    raise KeyboardInterrupt


def test_ctrl_c_ends_all_of_it_and_keeps_what_there_is():
    instance = small()
    methods = {"first": METHODS.lmm(), "second": METHODS.gauss_newton(), "third": METHODS.lmm()}
    calls = []

    def at_the_second(snapshot):
        calls.append(snapshot.step)
        if len(calls) == 3:  # the first method's run is looked at twice
            raise KeyboardInterrupt

    options = {"max_steps": 30, "tol": 0, "every": 10}
    comparison = lm.compare(
        instance.problem, methods, instance.x0, callback=at_the_second, **options
    )
    assert comparison.interrupted
    ended = {name: result.status.name for name, result in comparison.results.items()}
    assert ended == {"first": "STEP_LIMIT", "second": "INTERRUPTED"}
    assert comparison.not_run == ("third",)
    assert "third                    not run: interrupted" in str(comparison)
    # A callback may give up on single runs.
    comparison = lm.compare(
        instance.problem, methods, instance.x0, callback=lambda snapshot: True, **options
    )
    assert not comparison.interrupted
    assert [row["status"] for row in comparison.table()] == ["INTERRUPTED"] * 3


def test_ctrl_c_while_compiling(monkeypatch):
    module = sys.modules["lemmax.solve.compare"]  # as an attribute, compare is the function
    instance = small()
    monkeypatch.setattr(module, "solve", lambda *_, **__: interrupting(None))
    methods = {"a": METHODS.lmm(), "b": METHODS.lmm()}
    comparison = lm.compare(instance.problem, methods, instance.x0)
    assert comparison.interrupted
    assert comparison.not_run == ("a", "b")


WRONG_KINDS = """
import lemmax as lm
import numpy as np

M, problem = lm.methods, lm.Composite(lm.losses.L1(), lm.maps.Square(2), data=np.ones(2))

def sentence(provoke):
    try:
        provoke()
    except (TypeError, ValueError) as error:
        print(type(error).__name__, error)

sentence(lambda: lm.compare(problem, {"a": M.lmm}, np.ones(2)))
sentence(lambda: lm.compare(problem, {"a": "lmm"}, np.ones(2)))
sentence(lambda: lm.compare(problem, [M.lmm()], np.ones(2)))
sentence(lambda: lm.compare(problem, {}, np.ones(2)))
sentence(lambda: lm.compare(problem, {"a": M.lmm()}, np.ones(2), metrics={"m": 3}))
sentence(lambda: lm.compare(M.lmm(), {"a": M.lmm()}, np.ones(2)))
sentence(lambda: lm.compare(problem, {3: M.lmm()}, np.ones(2)))
sentence(lambda: lm.plots.compare({}))
"""


def test_wrong_kinds_of_things():
    """In a process of its own, since under pytest the type annotations are checked first."""
    done = subprocess.run(
        [sys.executable, "-c", WRONG_KINDS], capture_output=True, text=True, check=True
    )
    lines = done.stdout.strip().splitlines()
    assert len(lines) == 8
    assert "The method 'a' must be a method such as lm.methods.lmm(); got the function" in lines[0]
    assert "The method 'a' must be a method" in lines[1]
    assert "must be a dict of methods, such as" in lines[2]
    assert lines[3].startswith("ValueError There is nothing to compare")
    assert "The metric 'm' must be a function metric(x, evaluation); got a int" in lines[4]
    assert "first argument of compare must be a Composite" in lines[5]
    assert "The name 3 of a method must be text" in lines[6]
    assert "first argument of plots.compare must be from lm.compare" in lines[7]


def invoke(tmp_path, *arguments):
    from lemmax.cli.app import app

    out = ["--out", str(tmp_path / "out"), "--dim", "8", "--rank", "3", "--steps", "40"]
    return CliRunner().invoke(app, ["compare", *arguments, *out])


def test_the_command_tells_how_every_run_ended(tmp_path):
    done = invoke(tmp_path, "--methods", "LMM, Prox-Linear,scaled-subgradient")
    assert done.exit_code == 0, done.output
    endings = [line.split()[:2] for line in done.output.splitlines()]
    assert ["lmm", "limit"] in endings
    assert ["prox-linear", "reached"] in endings
    assert "…" not in done.output


def test_the_command_draws_nothing_if_all_refuse(tmp_path):
    done = invoke(tmp_path, "--methods", "opsa,apgd")
    assert done.exit_code == 2
    assert "Every method refused this problem" in done.output
    assert not list((tmp_path / "out").glob("*.png"))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--methods", "lmm,LMM"], "Named more than once: lmm."),
        (["--condition", "inf"], "condition must be at least 1 and at most"),
    ],
)
def test_the_command_refuses_nonsense(tmp_path, arguments, sentence):
    done = invoke(tmp_path, *arguments)
    assert done.exit_code == 2
    assert sentence in done.output


def test_ctrl_c_ends_the_command_with_its_exit_code(tmp_path, monkeypatch):
    real = lm.compare

    def interrupted(*args, **options):
        return real(*args, **options, callback=interrupting, every=10)

    monkeypatch.setattr(lm, "compare", interrupted)
    done = invoke(tmp_path, "--methods", "lmm,gauss-newton")
    assert done.exit_code == 130
    assert "Interrupted. Not run: gauss-newton." in done.output
    assert "stopped" in done.output
    assert not list((tmp_path / "out").glob("*.png"))
