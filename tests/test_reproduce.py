"""The harness behind ``lemmax reproduce``, and its first figures at a small size."""

import contextlib
import dataclasses
import html
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
from matplotlib.figure import Figure
from typer.testing import CliRunner

import lemmax as lm
from lemmax.cli.app import app
from lemmax.experiments import figures
from lemmax.experiments.figures.table1 import classify
from lemmax.experiments.harness import (
    Claim,
    Experiment,
    Job,
    Outcome,
    Summary,
    Table,
    curve,
    draw_curves,
    panels,
    perform,
    read_claims,
    run,
    steps_to,
    write_report,
)
from lemmax.experiments.instances import psd_factorisation


def invoke(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


# Experiments


def toy(work, keys=("one", "two"), name="toy"):
    """An experiment whose jobs do as told: ``work(key, seed, watch) -> Outcome``."""

    def draw(table):
        figure, axes = panels(1, 1)
        draw_curves(axes[0, 0], table)
        return figure

    return Experiment(
        name=name,
        title="A toy <of> ours",
        minutes=0.1,
        settings={"full": {"keys": list(keys), "big": True}, "quick": {"keys": list(keys)}},
        jobs=lambda settings, seed: [
            Job(key, lambda watch, key=key: work(key, seed, watch)) for key in settings["keys"]
        ],
        claims=lambda table, facts: [
            Claim("It <falls>.", bool(table.column("error")[-1] < 1), f"{len(table)} rows"),
            Claim("It is blue.", False, "n", correction="It is green.", correction_holds=True),
        ],
        draw=draw,
        summaries=lambda table: [Summary("Sums", ["a", "b"], [["1", "[2]"]], "a remark")],
    )


def falling(key, seed, watch):
    watch(1, 2)
    return Outcome(curve(np.array([1.0, 0.5, 0.1 + seed]), method=key), {"pace": 3})


def test_everything_about_an_experiment_is_written(tmp_path):
    told = []
    done = perform(toy(falling), tmp_path, seed=0, progress=lambda *told_: told.append(told_))
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"toy.csv", "toy.json", "toy.png", "toy.svg", "claims.json", "parts"}
    parts = {path.name for path in (tmp_path / "parts" / "toy").iterdir()}
    assert parts == {"one.csv", "one.json", "two.csv", "two.json"}
    assert Table.read(tmp_path / "toy.csv").rows() == done.table.rows()
    assert len(done.table) == 6
    record = json.loads((tmp_path / "toy.json").read_text())
    assert record["settings"] == {"keys": ["one", "two"], "big": True}
    assert record["seed"] == 0
    assert record["versions"]["lemmax"] == lm.__version__
    assert record["facts"] == {"one": {"pace": 3}, "two": {"pace": 3}}
    assert set(record["seconds_per_job"]) == {"one", "two"}
    assert record["machine"]["cores"] == os.cpu_count()
    outcomes = [(c["outcome"], c["correction"]) for c in read_claims(tmp_path)]
    assert outcomes == [("supported", None), ("corrected", "It is green.")]
    assert ("one", 0.25) in told
    assert told[-1] == ("drawing", 1.0)


def test_the_same_seed_gives_the_same_bytes(tmp_path):
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        perform(toy(falling), tmp_path / folder, seed=1)
    for name in ("toy.csv", "toy.png", "toy.svg", "claims.json"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes(), name


def test_claims_of_earlier_experiments_stay_and_own_ones_are_replaced(tmp_path):
    perform(toy(falling), tmp_path)
    perform(toy(falling, name="other"), tmp_path)
    perform(toy(falling), tmp_path, seed=3)
    judged = [(c["experiment"], c["outcome"]) for c in read_claims(tmp_path)]
    assert judged == [
        ("other", "supported"),
        ("other", "corrected"),
        ("toy", "not supported"),
        ("toy", "corrected"),
    ]


def test_resume_takes_over_what_is_the_same_and_only_that(tmp_path):
    ran = []

    def counted(key, seed, watch):
        ran.append(key)
        return falling(key, seed, watch)

    perform(toy(counted), tmp_path)
    perform(toy(counted), tmp_path, resume=True)
    assert ran == ["one", "two"]
    (tmp_path / "parts" / "toy" / "two.json").unlink()
    perform(toy(counted), tmp_path, resume=True)
    assert ran == ["one", "two", "two"]
    ran.clear()
    perform(toy(counted), tmp_path)
    perform(toy(counted), tmp_path, resume=True, seed=1)
    perform(toy(counted), tmp_path, resume=True, seed=1, size="quick")
    assert ran == ["one", "two"] * 3


def test_an_interrupted_solver_is_not_taken_for_a_finished_one(tmp_path):
    """`lemmax.solve` answers Ctrl-C by returning what it has; that must not count as a result."""
    first = True

    def swallowing(key, seed, watch):
        nonlocal first
        if key == "two" and first:
            first = False
            with contextlib.suppress(KeyboardInterrupt):
                os.kill(os.getpid(), signal.SIGINT)
        return falling(key, seed, lambda done, total: None)

    with pytest.raises(KeyboardInterrupt):
        perform(toy(swallowing), tmp_path)
    parts = {path.name for path in (tmp_path / "parts" / "toy").iterdir()}
    assert parts == {"one.csv", "one.json"}
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    assert len(perform(toy(swallowing), tmp_path, resume=True).table) == 6


def test_a_run_that_is_interrupted_raises():
    instance = psd_factorisation(0, dim=5, rank=2)

    def impatient(done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(impatient, instance, lm.methods.lmm(), 50)


def test_bad_experiments_are_refused(tmp_path):
    with pytest.raises(ValueError, match="is a file name"):
        Job("../up", lambda watch: Outcome(Table({})))
    with pytest.raises(ValueError, match="same key"):
        perform(toy(falling, keys=("one", "one")), tmp_path)


@pytest.mark.parametrize(
    ("holds", "correction", "correction_holds", "outcome"),
    [
        (True, None, None, "supported"),
        (True, "instead", False, "supported"),
        (False, "instead", True, "corrected"),
        (False, "instead", False, "not supported"),
        (False, None, None, "not supported"),
    ],
)
def test_claims_have_outcomes(holds, correction, correction_holds, outcome):
    assert Claim("s", holds, "n", correction, correction_holds).outcome == outcome
    small = Claim("s", holds, "n", correction, correction_holds, decided=False).outcome
    assert small == ("undecided" if outcome == "not supported" else outcome)


def test_small_sizes_refute_nothing(tmp_path):
    def judge(table, facts):
        return [Claim("s", False, "n")]

    experiment = dataclasses.replace(toy(falling), claims=judge)
    for size, outcome in (("quick", "undecided"), ("full", "not supported")):
        perform(experiment, tmp_path, size=size, seed=3)
        (claim,) = read_claims(tmp_path)
        assert (claim["outcome"], claim["seed"]) == (outcome, 3)


def test_steps_are_counted_to_the_first_hit():
    assert steps_to(np.array([1.0, 0.1, 1.0, 0.01]), 0.1) == 1
    assert steps_to(np.array([1.0, float("nan")]), 0.1) is None


def test_curves_beyond_the_picture_are_drawn_on_its_edge():
    ax = Figure().subplots()
    table = curve(np.array([1.0, 1e9, float("nan"), 1e-20]), method="LMM")
    draw_curves(ax, table)
    np.testing.assert_array_equal(ax.lines[0].get_ydata(), [1.0, 1e3, 1e3, 1e-13])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["LMM"]


# The command


def test_the_list_names_every_experiment_and_its_time():
    listing = invoke("reproduce").output
    for name in figures.NAMES:
        assert name in listing
        assert figures.load(name).name == name
    assert "minutes" in listing


def test_an_unknown_name_gets_a_sentence_and_exit_code_2(tmp_path):
    done = invoke("reproduce", "fig1", "fig0", "--out", tmp_path / "new")
    assert done.exit_code == 2
    assert "Unknown: fig0. There is: fig1" in done.output
    assert not (tmp_path / "new").exists()


def test_ctrl_c_keeps_what_is_finished_and_says_how_to_go_on(tmp_path, monkeypatch):
    def interrupted(key, seed, watch):
        if key == "two":
            os.kill(os.getpid(), signal.SIGINT)
        return falling(key, seed, watch)

    monkeypatch.setattr(figures, "load", lambda name: toy(interrupted))
    done = invoke("reproduce", "fig1", "--out", tmp_path, "--seed", 4)
    assert done.exit_code == 130
    said = " ".join(done.output.split())
    assert f"lemmax reproduce fig1 --out {tmp_path}".replace(" ", "") in said.replace(" ", "")
    assert "--seed 4 --resume" in said
    assert (tmp_path / "parts" / "toy" / "one.json").exists()


def test_ctrl_c_ends_the_process_in_order(tmp_path):
    """With JAX's threads at work: no crash, and the exit code of an interruption."""
    command = [sys.executable, "-c", "from lemmax.cli import main; main()"]
    # At full size: with programs that are compiled already a quick run would be over.
    command += ["reproduce", "fig1", "--out", str(tmp_path)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    while not (tmp_path / "parts" / "fig1").exists():
        assert process.poll() is None
        time.sleep(0.1)
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    said, _ = process.communicate(timeout=120)
    assert process.returncode == 130
    assert "--resume" in said


@pytest.mark.parametrize(
    ("options", "size"),
    [
        (["--all"], "full"),
        (["--quick"], "quick"),
        pytest.param(["--all", "--quick"], "quick", marks=pytest.mark.slow),
    ],
)
def test_everything_is_one_option(tmp_path, monkeypatch, options, size):
    monkeypatch.setattr(figures, "NAMES", figures.NAMES[-3:])  # of each, two pictures are drawn
    monkeypatch.setattr(figures, "load", lambda name: toy(falling, keys=["one"], name=name))
    done = invoke("reproduce", *options, "--out", tmp_path)
    assert done.exit_code == 0, done.output
    for name in figures.NAMES:
        assert json.loads((tmp_path / f"{name}.json").read_text())["size"] == size
    assert {claim["experiment"] for claim in read_claims(tmp_path)} == set(figures.NAMES)
    report = (tmp_path / "report.html").read_text()
    assert report.count("<img") == len(figures.NAMES)
    assert ("A quick run" in report) == (size == "quick")


@pytest.fixture(scope="module")
def quick_fig1(tmp_path_factory):
    out = tmp_path_factory.mktemp("paper")
    done = invoke("reproduce", "fig1", "--quick", "--out", out)
    assert done.exit_code == 0, done.output
    return out, done.output


def test_figure_1_at_a_small_size(quick_fig1):
    out, said = quick_fig1
    outcomes = [claim["outcome"] for claim in read_claims(out)]
    assert outcomes == ["supported", "supported", "corrected", "supported"]
    assert "corrected: Mild over-parameterisation makes the Gauss-Newton method diverge." in said
    assert "Claims: 3 supported, 1 corrected." in said
    table = Table.read(out / "fig1.csv")
    lmm = table.where(method="LMM", redundant_scale=1.0, start=0).column("error")
    assert lmm[0] == pytest.approx(1e-2, rel=1e-3)
    np.testing.assert_allclose(lmm[3:10] / lmm[2:9], 0.25, rtol=0.02)
    assert (out / "fig1.svg").read_text().startswith("<?xml")


@pytest.mark.slow
def test_figure_2_at_a_small_size(tmp_path):
    done = perform(figures.load("fig2"), tmp_path, size="quick")
    outcomes = [claim.outcome for claim in done.claims]
    assert outcomes == ["supported"] * 4 + ["corrected"]
    assert len(done.table.where(method="LMM").unique("condition")) == 2


def test_convergence_is_named_from_the_trace():
    steps = np.arange(400)
    rounding = 1e-15
    assert classify(0.9**steps + rounding).kind == "linear"
    assert classify(0.9**steps + rounding).rate == pytest.approx(0.9, rel=1e-3)
    assert classify(0.9**steps + 1e-9).kind == "neighbourhood"
    assert classify(0.9**steps + 1e-9 * 0.995**steps).kind == "neighbourhood"
    assert classify(0.97**steps).kind == "sublinear"
    assert classify(1 / (1 + steps)).kind == "sublinear"
    assert classify(1.1**steps).kind == "diverges"
    assert classify(np.where(steps > 300, np.nan, 0.9**steps)).kind == "diverges"


@pytest.mark.slow
def test_table_1_at_a_small_size(tmp_path):
    experiment = figures.load("table1")
    done = perform(experiment, tmp_path, size="quick")
    outcomes = {claim.statement.split(" converges")[0]: claim.outcome for claim in done.claims}
    corrected = {name for name, outcome in outcomes.items() if outcome == "corrected"}
    assert {"OPSA", "Approximated GN"} < corrected
    assert len(corrected) == 3
    assert "not supported" not in outcomes.values()
    subgradient = done.table.where(method="Polyak subgradient", overparameterised=True)
    assert "linear" not in subgradient.unique("kind")
    assert len(done.summaries) == 2
    assert len(done.summaries[0].rows) == 11


# The report


def chromium(*arguments, folder):
    """Run a headless browser with a new profile; what it prints."""
    browser = shutil.which("chromium") or shutil.which("chromium-browser")
    if browser is None:
        pytest.skip("no chromium to open the page in")
    options = (
        "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run "
        "--disable-background-networking --disable-component-update --disable-sync "
        "--disable-dev-shm-usage --virtual-time-budget=5000"
    )
    command = [browser, *options.split(), f"--user-data-dir={folder}", *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, cwd=folder)
    assert done.returncode == 0, done.stderr
    return done.stdout


# The page in a frame of a given width (a window is never narrower than 500 pixels), and a script
# that writes down how wide its pictures and the page itself turned out, and which text is seen.
_FRAME = """<!doctype html><body><iframe style="width:{width}px;height:900px" srcdoc="{page}">
</iframe><script>addEventListener("load", () => {{
const inside = document.querySelector("iframe").contentDocument, page = inside.documentElement;
const widths = [...inside.images].map(image => image.complete ? image.naturalWidth : 0);
document.body.innerText = JSON.stringify({{
  widths, overflow: page.scrollWidth - page.clientWidth, text: inside.body.innerText }});
}});</script></body>"""


@pytest.mark.parametrize("width", [390, 1280])
def test_the_report_opens_in_a_browser(quick_fig1, tmp_path, width):
    out, _ = quick_fig1
    perform(toy(falling), out)
    write_report(out)
    text = (out / "report.html").read_text()
    assert not re.search(r"https?://|<script", text)
    framed = tmp_path / "framed.html"
    framed.write_text(_FRAME.format(width=width, page=html.escape(text)))
    dom = chromium("--dump-dom", framed.as_uri(), folder=tmp_path)
    body = re.search(r"<body>(.*)</body>", dom, re.DOTALL).group(1)
    seen = json.loads(html.unescape(body))
    assert len(seen["widths"]) == 2
    assert min(seen["widths"]) > 500
    assert seen["overflow"] == 0
    for claim in read_claims(out):
        assert claim["statement"] in seen["text"]
        assert claim["outcome"] in seen["text"]
    for words in ("3 supported", "1 corrected", "It is green.", "T4", "Seed 0, quick size"):
        assert words in seen["text"]
