"""Ctrl-C while a command is at work."""

import contextlib
import json
import os
import signal

import numpy as np
import pytest

from lemmax.estimators import CPDecomposition, RobustPCA
from lemmax.recovery import api
from tests.commands import output_of


def interrupted_at(monkeypatch, step):
    """Ctrl-C at a step of the search."""
    sent = []

    def watch(stage, number, value):
        if number >= step and not sent:
            sent.append(number)
            os.kill(os.getpid(), signal.SIGINT)
        return False

    monkeypatch.setattr(api, "_watch", lambda *_: watch)


def test_ctrl_c_in_the_fit_writes_what_there_is(tensor_file, tmp_path, monkeypatch):
    interrupted_at(monkeypatch, 1)
    out = tmp_path / "out"
    said = output_of(130, "cp", tensor_file, "--rank", 3, "--out", out)
    assert "Interrupted: the results so far are written, and are unreliable" in said
    assert json.loads((out / "summary.json").read_text())["status"] == "INTERRUPTED"
    assert "INTERRUPTED" in (out / "report.html").read_text()
    assert np.load(out / "cleaned.npy").shape == (7, 6, 5)
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


@pytest.mark.parametrize(
    ("command", "name"), [("pca", "cleaned.csv"), ("complete", "completed.csv")]
)
def test_ctrl_c_between_sweeps_writes_the_last(command, name, tmp_path, monkeypatch):
    rng = np.random.default_rng(1)
    table = rng.standard_normal((80, 2)) @ rng.standard_normal((2, 8))
    np.save(tmp_path / "table.npy", table + 0.1 * rng.standard_normal(table.shape))
    sent = []

    @contextlib.contextmanager
    def interrupting(self):
        def callback(stage, sweep, noise):
            if sweep >= 3 and not sent:
                sent.append(sweep)
                os.kill(os.getpid(), signal.SIGINT)

        yield {"callback": callback}

    monkeypatch.setattr("lemmax.estimators._factor.FactorEstimator._limits", interrupting)
    out = tmp_path / "out"
    said = output_of(130, command, tmp_path / "table.npy", "--out", out)
    assert "Interrupted: the results so far are written" in said
    assert json.loads((out / "summary.json").read_text())["status"] == "INTERRUPTED"
    assert (out / name).exists()


def test_a_fit_that_its_own_limit_ends_is_no_interrupt(table_file, tmp_path):
    out = tmp_path / "out"
    said = output_of(1, "pca", table_file[0], "--max-seconds", 0, "--out", out)
    assert "The verdict is INTERRUPTED" in said
    assert json.loads((out / "summary.json").read_text())["status"] == "INTERRUPTED"
    assert (out / "cleaned.csv").exists()


def test_a_second_ctrl_c_gives_up(tensor_file, tmp_path, monkeypatch):
    fit, out = CPDecomposition.fit, tmp_path / "out"

    def fit_and_again(model, tensor, **options):
        fit(model, tensor)
        os.kill(os.getpid(), signal.SIGINT)

    interrupted_at(monkeypatch, 1)
    monkeypatch.setattr(CPDecomposition, "fit", fit_and_again)
    said = output_of(130, "cp", tensor_file, "--rank", 3, "--out", out)
    assert "Interrupted; nothing was written." in said
    assert not out.exists()


@pytest.mark.parametrize("place", ["lemmax.estimators.RobustPCA.fit", "lemmax.plots.residual_map"])
def test_ctrl_c_before_or_after_the_fit_gives_up(place, table_file, tmp_path, monkeypatch):
    monkeypatch.setattr(place, lambda *_, **__: os.kill(os.getpid(), signal.SIGINT))
    out = tmp_path / "out"
    said = output_of(130, "pca", table_file[0], "--out", out)
    assert "Interrupted; nothing was written." in said
    assert not out.exists()


def test_ctrl_c_that_the_fit_outlives_is_told(table_file, tmp_path, monkeypatch):
    fit, out = RobustPCA.fit, tmp_path / "out"

    def undeterred(model, values, **options):
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
        return fit(model, values)

    monkeypatch.setattr(RobustPCA, "fit", undeterred)
    said = output_of(130, "pca", table_file[0], "--out", out)
    assert "but the fit was complete" in said
    assert json.loads((out / "summary.json").read_text())["status"] == "EXACT"
