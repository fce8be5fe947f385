"""The code of README and tutorials, the demo, and the pictures."""

import pathlib
import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from typer.testing import CliRunner

import lemmax as lm

ROOT = pathlib.Path(__file__).parent.parent


def blocks_of(page):
    return re.findall(r"```python\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def pasted(code, folder, *options):
    """What a program prints in a process without x64 mode, as a newcomer has it."""
    done = subprocess.run(
        [sys.executable, *options, "-c", code], capture_output=True, text=True, cwd=folder
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_each_example_of_the_readme_runs_alone(tmp_path):
    blocks = blocks_of("README.md")
    assert len(blocks) == 3
    assert blocks_of("docs/index.md") == blocks[:1]
    # One process, to import once; namespaces of their own, since people paste one of them.
    table, model, problem = pasted(
        f"for code in {blocks!r}:\n    exec(code, {{}})\n    print('----')", tmp_path
    ).split("----\n")[:3]
    assert "missing         20" in table
    assert re.search(r"7 +mean area +5779", table)
    assert "height  1.9979 ± 0.0065" in model
    assert "outliers  10 of 50" in model
    assert "CONVERGED" in problem
    assert float(problem.splitlines()[-1]) < 1e-9


def test_the_readme_is_short():
    assert (ROOT / "README.md").read_text().count("\n") <= 150


def test_the_tutorial_on_tables_runs_as_pasted(tmp_path):
    printed = pasted("\n".join(blocks_of("docs/tables.md")), tmp_path)
    assert "EXACT" in printed
    assert float(re.findall(r"^(\S+) \d+$", printed, re.MULTILINE)[0]) < 1e-9
    assert "user 3" in printed


def test_the_tutorial_on_problems_runs_as_pasted(tmp_path):
    printed = pasted("\n".join(blocks_of("docs/solve.md")), tmp_path)
    assert "TARGET_REACHED" in printed
    errors = [float(number) for number in re.findall(r"error (\S+)", printed)]
    assert len(errors) == 2
    assert max(errors) < 1e-9
    assert (tmp_path / "convergence.png").stat().st_size > 1000


def test_the_tutorial_runs_as_pasted(tmp_path):
    blocks = blocks_of("docs/recover.md")
    assert len(blocks) == 2
    printed = pasted("\n".join(blocks), tmp_path)
    assert "outliers        192 of 960 (20.0%)" in printed
    rank, wrong, error = printed.splitlines()[-1].split()
    assert rank == "3"
    assert int(wrong) > 100
    assert float(error) < 1e-9
    assert (tmp_path / "recovery.png").exists()


@pytest.mark.slow
def test_the_tutorial_of_own_models_runs_as_pasted(tmp_path):
    blocks = blocks_of("docs/fit.md")
    assert len(blocks) >= 5
    printed = pasted("\n".join(blocks), tmp_path, "-W", "error")
    assert "outliers  12 of 80 (15.0%)" in printed
    assert (tmp_path / "fit.png").exists()


@pytest.mark.slow
def test_the_large_model_runs_as_pasted(tmp_path):
    (block,) = blocks_of("docs/fit-details.md")
    status, wrong, error = pasted(block, tmp_path, "-W", "error").split()
    assert (status, wrong) == ("FITTED", "200")
    assert float(error) < 0.2


def test_the_code_that_shows_how_to_extend_runs(capsys):
    blocks = blocks_of("docs/extend.md")
    assert len(blocks) == 3
    # As it is for a user, who has set nothing.
    with (
        jax.enable_x64(False),
        jax.numpy_dtype_promotion("standard"),
        jax.numpy_rank_promotion("allow"),
    ):
        exec("\n".join(blocks), {"__name__": "pasted"})
    assert capsys.readouterr().out.split() == ["TARGET_REACHED"]


def test_demo_draws_and_tells(tmp_path):
    from lemmax.cli.app import app

    out = tmp_path / "demo"
    done = CliRunner().invoke(app, ["demo", "--out", str(out)])
    assert done.exit_code == 0, done.output
    pictures = {f"{name}.png" for name in ("demo", "table", "model", "claim")}
    assert {path.name for path in out.iterdir()} == {*pictures, "index.html"}
    assert all((out / name).read_bytes().startswith(b"\x89PNG") for name in pictures)
    text = (out / "index.html").read_text()
    assert text.count("data:image/png;base64") == text.count("<table>") == 3
    assert "http" not in text  # it opens without a connection

    def cells(method):
        (line,) = (line for line in done.output.splitlines() if line.startswith(f"│ {method} "))
        return [cell.strip() for cell in line.strip("│").split("│")][1:]

    # The table: fewer errors than the imputer, most typing errors found, honest intervals.
    ours, theirs = cells("RobustPCA"), cells("z-scores + KNN")
    assert float(ours[0]) < 0.7 * float(theirs[0])
    found, _, typos = map(str, ours[1].split())
    assert int(found) > 0.7 * int(typos)
    assert 85 <= int(ours[3].strip("%")) <= 95
    # The model: every outlier, and each parameter within three standard errors of the truth.
    *fitted, wrong = cells("lm.fit")
    *truth, number = cells("truth")
    assert abs(int(wrong) - int(number)) <= 1
    for told, true in zip(fitted, truth, strict=True):
        value, error = map(float, told.split("±"))
        assert abs(value - float(true)) <= 3 * error + 0.01
    # The claim.
    assert float(cells("LMM")[1]) < 1e-13
    for rival in ("Gauss-Newton", "scaled subgradient", "subgradient"):
        assert float(cells(rival)[1]) > 1e-10


def test_demo_refuses_an_impossible_folder(tmp_path):
    from lemmax.cli.app import app

    (tmp_path / "file").write_text("in the way")
    done = CliRunner().invoke(app, ["demo", "--out", str(tmp_path / "file")])
    assert done.exit_code == 2
    assert "Cannot write to" in done.output


def test_convergence_picture_shows_the_trace():
    problem = lm.Composite(lm.losses.L2(), lm.maps.Square(2), data=jnp.array([4.0, 0.0]))
    runs = {
        name: lm.solve(problem, method, jnp.ones(2), max_steps=9, tol=0)
        for name, method in (("a", lm.methods.lmm()), ("b", lm.methods.polyak_subgradient()))
    }
    (ax,) = lm.plots.convergence(runs).axes
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["a", "b"]
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), runs["a"].trace.value)
    with pytest.raises(KeyError, match="there are"):
        lm.plots.convergence(runs, metric="no such metric")
    assert len(lm.plots.convergence(list(runs.values()), ax=ax).axes[0].lines) == 4
    batch = jax.tree.map(lambda *leaves: jnp.stack(leaves), *runs.values())
    with pytest.raises(ValueError, match="a batch of runs"):
        lm.plots.convergence(batch)


def invoke(*arguments):
    from lemmax.cli.app import app

    return CliRunner().invoke(app, [str(argument) for argument in arguments])


def test_compare_draws_and_tells(tmp_path):
    options = ["--dim", 8, "--rank", 3, "--steps", 60, "--out", tmp_path]
    done = invoke("compare", "--methods", "lmm,prec-gd,prox-linear", *options)
    assert done.exit_code == 0, done.output
    assert "prox-linear" in done.output
    assert "prec-gd was left out. PrecGD needs a smooth loss" in " ".join(done.output.split())
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compare", "--methods", "lmm,magic"], "Unknown method magic"),
        (["compare", "--rank", "2", "--true-rank", "3"], "must be at most the fitted rank"),
        (["reproduce", "figure0"], "Unknown: figure0"),
    ],
)
def test_bad_choices_get_a_sentence_and_exit_code_2(arguments, sentence):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert sentence in done.output


def test_reproduce_lists_what_there_is():
    assert "table1" in invoke("reproduce").output
