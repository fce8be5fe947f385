"""The paper's figures at small sizes; tests/test_reproduce.py is about the harness itself."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import lemmax as lm
from lemmax.cli.app import app
from lemmax.experiments import figures
from lemmax.experiments.harness import Lane, out_of_reach, perform, run_together
from lemmax.experiments.instances import psd_sensing


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("paper")


# What the data of a small size must bear out, by the first words of the statement.
BORNE_OUT = {
    "fig3": {"LMM and PrecGD": "supported", "The gradient descent method": "supported"},
    "fig4": {"LMM converges": "supported", "OPSA": "supported", "The subgradient": "supported"},
    "fig5": {"LMM converges for a broad": "supported", "The subgradient": "supported"},
    "fig6": {"The subgradient": "supported", "The first step 1e-5": "corrected"},
    "fig7": {},
    "fig8": {"LMM converges": "corrected", "The error of LMM": "supported"},
    "cg": {"(Ours.) Ten are enough": "supported", "A product": "supported"},
}


# A quarter of a minute to a minute each; the others are of the same kinds.
SLOW = ("fig3", "fig4", "fig6", "fig7", "fig8", "cg")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.slow) if name in SLOW else name for name in BORNE_OUT],
)
def test_figure_at_a_small_size(folder, name):
    finished = perform(figures.load(name), folder, size="quick")
    for suffix in ("csv", "json", "png", "svg"):
        assert (folder / f"{name}.{suffix}").stat().st_size > 0
    record = json.loads((folder / f"{name}.json").read_text())
    assert record["seed"] == 0
    assert record["seconds"] > 0
    outcomes = {claim.statement: claim.outcome for claim in finished.claims}
    assert len(outcomes) >= 3
    for beginning, wanted in BORNE_OUT[name].items():
        (found,) = [o for statement, o in outcomes.items() if statement.startswith(beginning)]
        assert found == wanted


def test_the_same_seed_gives_the_same_table_of_a_batch():
    experiment = figures.load("fig4")

    def table(seed):
        job = experiment.jobs(experiment.settings["quick"], seed)[0]
        return job.run(lambda done, total: None).table

    first, again, other = table(0), table(0), table(1)
    np.testing.assert_array_equal(first.column("error"), again.column("error"))
    assert not np.array_equal(first.column("error")[:10], other.column("error")[:10])


def test_every_figure_is_listed_and_runs_from_the_command_line():
    assert (*(f"fig{k}" for k in range(1, 9)), "table1", "cg") == figures.NAMES
    for name in figures.NAMES:
        assert figures.load(name).name == name


def test_what_does_not_fit_into_memory_gets_a_sentence(tmp_path, monkeypatch):
    def too_much(*args, **options):
        raise MemoryError("Measurements of shape (7500, 125000) need 7.0 GiB.")

    monkeypatch.setattr("lemmax.cli.reproduce.perform", too_much)
    answer = CliRunner().invoke(app, ["reproduce", "fig8", "--out", str(tmp_path)])
    assert answer.exit_code == 1
    said = " ".join(answer.output.split())
    assert "fig8 does not fit in memory: Measurements of shape (7500, 125000)" in said
    assert "lemmax reproduce fig8 --quick" in said


def lane(method, **changes):
    instance = psd_sensing(0, **({"dim": 8, "rank": 3, "measurements": 120} | changes))
    return Lane({}, instance, method)


def test_lanes_end_where_the_picture_does():
    lanes = [lane(lm.methods.lmm()), lane(lm.methods.polyak_subgradient())]
    done, slow = run_together(lambda done, total: None, lanes, 600)
    assert done.trace.metrics["relative error"][-1] <= 1e-13
    assert int(done.steps) < 600
    assert int(slow.steps) == 600


def test_a_lane_out_of_reach_is_given_up_and_only_that():
    """The steps of the first cannot add up to its way; the others get there, or nearly."""

    def geometric(first_step):
        return lm.methods.lmm(lm.steps.Geometric(first_step, 0.9), lm.damping.Geometric(1e-5, 0.9))

    lanes = [lane(geometric(first_step)) for first_step in (1e-8, 1e-3, 2e-4)]
    stop = out_of_reach(1e-8, [0.9] * 3)
    short, long, middle = run_together(lambda done, total: None, lanes, 400, stop=stop)
    errors = [r.trace.metrics["relative error"] for r in (short, long, middle)]
    assert int(short.steps) <= 50
    assert errors[0][-1] > 0.9 * errors[0][0]
    patient = run_together(lambda done, total: None, lanes, 400)
    for given_up, kept in zip(
        errors, (r.trace.metrics["relative error"] for r in patient), strict=True
    ):
        assert (np.min(given_up) <= 1e-8) == (np.min(kept) <= 1e-8)
    assert np.min(errors[1]) <= 1e-8
