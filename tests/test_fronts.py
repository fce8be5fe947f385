"""The README's code, the demo, and the pictures."""

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


def test_readme_code_runs_as_pasted(tmp_path):
    """One process without x64 mode, as a newcomer has it."""
    blocks = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert len(blocks) >= 3
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    printed = done.stdout
    assert "TARGET_REACHED" in printed
    assert "CONVERGED" in printed
    numbers = re.findall(r"^(?:CONVERGED )?(\d\.\d+e-\d+)$", printed, re.MULTILINE)
    errors = [float(number) for number in numbers]
    assert len(errors) == 3
    assert max(errors) < 1e-9
    assert "EXACT" in printed
    assert "outliers        192 of 960" in printed
    for picture in ("convergence.png", "recovery.png"):
        assert (tmp_path / picture).stat().st_size > 1000


def test_the_tutorial_runs_as_pasted(tmp_path):
    text = (ROOT / "docs" / "recover.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(blocks)], capture_output=True, text=True, cwd=tmp_path
    )
    assert done.returncode == 0, done.stderr
    assert "outliers        192 of 960 (20.0%)" in done.stdout
    rank, wrong, error = done.stdout.splitlines()[-1].split()
    assert rank == "3"
    assert int(wrong) > 100
    assert float(error) < 1e-9
    assert (tmp_path / "recovery.png").exists()


@pytest.mark.slow
def test_the_tutorial_of_own_models_runs_as_pasted(tmp_path):
    text = (ROOT / "docs" / "fit.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) >= 5
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", "\n".join(blocks)],
        capture_output=True,
        text=True,
        cwd=tmp_path,
    )
    assert done.returncode == 0, done.stderr
    assert "outliers  12 of 80 (15.0%)" in done.stdout
    assert (tmp_path / "fit.png").exists()


def test_the_code_that_shows_how_to_extend_runs(capsys):
    text = (ROOT / "docs" / "architecture.md").read_text()
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(blocks) == 2
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
    assert {path.name for path in out.iterdir()} == {"demo.png", "index.html"}
    assert (out / "demo.png").read_bytes().startswith(b"\x89PNG")
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
    assert "prec-gd was left out. PrecGD is for smooth losses" in " ".join(done.output.split())
    assert (tmp_path / "compare.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["compare", "--methods", "lmm,magic"], "No method called magic"),
        (["compare", "--rank", "2", "--true-rank", "3"], "must be at most the fitted rank"),
        (["reproduce", "figure0"], "Nothing called figure0"),
    ],
)
def test_bad_choices_get_a_sentence_and_exit_code_2(arguments, sentence):
    done = invoke(*arguments)
    assert done.exit_code == 2
    assert sentence in done.output


def test_reproduce_lists_what_there_is():
    assert "table1" in invoke("reproduce").output
