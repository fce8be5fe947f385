"""Run the jobs of an experiment, store each, and assemble table, picture and claims."""

import contextlib
import hashlib
import json
import pathlib
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import jax

from ..._files import save, save_text
from .experiment import Claim, Experiment, Facts, Job, Outcome, Summary, Watch
from .provenance import machine, versions
from .table import Table

Progress = Callable[[str, float], None]
"""Progress function of the job's key and the finished share of the experiment."""


@dataclass(frozen=True)
class Finished:
    """A finished experiment, as stored on disk."""

    table: Table
    record: dict[str, Any]
    claims: Sequence[Claim]
    summaries: Sequence[Summary]


def perform(
    experiment: Experiment,
    out: pathlib.Path,
    *,
    seed: int = 0,
    size: str = "full",
    resume: bool = False,
    progress: Progress = lambda key, share: None,
) -> Finished:
    """Run an experiment and write its results to a folder.

    Parameters
    ----------
    experiment : Experiment
        The experiment to run.
    out : Path
        An existing folder. It gets ``<name>.csv``, ``.json``, ``.png``, ``.svg``, the
        experiment's part of ``claims.json``, and ``parts/<name>/`` with a file per job.
    seed : int
        Random seed.
    size : str
        ``full`` or ``quick``.
    resume : bool
        Reuse jobs that an earlier call with the same settings, seed and version finished.
    progress : callable, optional
        Progress function.

    Returns
    -------
    Finished

    Raises
    ------
    KeyboardInterrupt
        After Ctrl-C; finished jobs are kept.
    """
    settings = experiment.settings[size]
    jobs = experiment.jobs(settings, seed)
    if len({job.key for job in jobs}) < len(jobs):
        raise ValueError(f"Two jobs of {experiment.name} have the same key.")
    identity = {
        "experiment": experiment.name,
        "settings": settings,
        "seed": seed,
        "size": size,
        "lemmax": versions()["lemmax"],
    }
    parts = out / "parts" / experiment.name
    parts.mkdir(parents=True, exist_ok=True)
    records = {}
    for done, job in enumerate(jobs):
        progress(job.key, done / len(jobs))
        fingerprint = _fingerprint({**identity, "job": job.key})
        if not (resume and _is_finished(parts, job.key, fingerprint)):
            watch = _share_of(progress, job.key, done, len(jobs))
            with _compiled_in_a_hurry() if size == "quick" else contextlib.nullcontext():
                _run_and_keep(job, parts, fingerprint, watch)
        records[job.key] = _read_record(parts, job.key)
    progress("drawing", 1.0)
    Table.concatenate([Table.read(_csv(parts, job.key)) for job in jobs]).write(
        out / f"{experiment.name}.csv"
    )
    table = Table.read(out / f"{experiment.name}.csv")
    facts: Facts = {key: record["facts"] for key, record in records.items()}
    seconds = {key: record["seconds"] for key, record in records.items()}
    summaries = experiment.summaries(table)
    record = {
        "name": experiment.name,
        "title": experiment.title,
        **{key: identity[key] for key in ("size", "seed", "settings")},
        "versions": versions(),
        "machine": machine(),
        "seconds": round(sum(seconds.values()), 3),
        "seconds_per_job": seconds,
        "facts": facts,
        "summaries": [asdict(summary) for summary in summaries],
    }
    _save_json(out / f"{experiment.name}.json", record)
    _save_pictures(experiment.draw(table), out, experiment.name)
    # A claim that fails at small sizes is undecided, not refuted.
    claims = [replace(c, decided=size == "full") for c in experiment.claims(table, facts)]
    _merge_claims(out / "claims.json", experiment.name, size, seed, claims)
    return Finished(table, record, claims, summaries)


def read_claims(out: pathlib.Path) -> list[dict[str, Any]]:
    """All claims tested in a folder so far."""
    path = out / "claims.json"
    return json.loads(path.read_text(encoding="utf-8")) if path.exists() else []


def _run_and_keep(job: Job, parts: pathlib.Path, fingerprint: str, watch: Watch) -> None:
    # Remove the old record first: a crash must not combine old facts with new rows.
    _json(parts, job.key).unlink(missing_ok=True)
    began = time.perf_counter()
    with _interrupts() as check:

        def checked(done: float, total: float) -> None:
            check()
            watch(done, total)

        outcome: Outcome = job.run(checked)
        check()
    seconds = round(time.perf_counter() - began, 3)
    outcome.table.write(_csv(parts, job.key))
    record = {"fingerprint": fingerprint, "seconds": seconds, "facts": dict(outcome.facts)}
    _save_json(_json(parts, job.key), record)


@contextlib.contextmanager
def _compiled_in_a_hurry() -> Iterator[None]:
    """Compile with little optimisation, which pays for small runs."""
    option = "jax_disable_most_optimizations"
    before = jax.config.read(option)
    jax.config.update(option, True)
    try:
        yield
    finally:
        jax.config.update(option, before)


@contextlib.contextmanager
def _interrupts() -> Iterator[Callable[[], None]]:
    """Record Ctrl-C, since a solver that catches it returns normally.

    The yielded function raises KeyboardInterrupt if Ctrl-C was pressed.
    """
    came = False

    def remember(number: int, frame: Any) -> None:
        nonlocal came
        came = True
        raise KeyboardInterrupt

    def check() -> None:
        if came:
            raise KeyboardInterrupt

    try:
        before = signal.signal(signal.SIGINT, remember)
    except ValueError:  # only the main thread can set handlers, and only it gets Ctrl-C
        yield check
        return
    try:
        yield check
    finally:
        signal.signal(signal.SIGINT, before)


def _share_of(progress: Progress, key: str, done: int, jobs: int) -> Watch:
    def watch(finished: float, total: float) -> None:
        progress(key, (done + min(finished / max(total, 1), 1.0)) / jobs)

    return watch


def _is_finished(parts: pathlib.Path, key: str, fingerprint: str) -> bool:
    if not (_json(parts, key).exists() and _csv(parts, key).exists()):
        return False
    return _read_record(parts, key)["fingerprint"] == fingerprint


def _read_record(parts: pathlib.Path, key: str) -> dict[str, Any]:
    return json.loads(_json(parts, key).read_text(encoding="utf-8"))


def _csv(parts: pathlib.Path, key: str) -> pathlib.Path:
    return parts / f"{key}.csv"


def _json(parts: pathlib.Path, key: str) -> pathlib.Path:
    return parts / f"{key}.json"


def _fingerprint(identity: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()


def _save_json(path: pathlib.Path, content: Any) -> None:
    save_text(path, json.dumps(content, indent=1, ensure_ascii=False) + "\n")


def _save_pictures(figure: Any, out: pathlib.Path, name: str) -> None:
    import matplotlib

    save(out / f"{name}.png", lambda partial: figure.savefig(partial, dpi=150))
    # No date and no random ids, so that the same data give the same file.
    with matplotlib.rc_context({"svg.hashsalt": name}):
        save(
            out / f"{name}.svg",
            lambda partial: figure.savefig(partial, metadata={"Date": None}),
        )


def _merge_claims(
    path: pathlib.Path, name: str, size: str, seed: int, claims: Sequence[Claim]
) -> None:
    others = [claim for claim in read_claims(path.parent) if claim["experiment"] != name]
    mine = [
        {
            "experiment": name,
            "size": size,
            "seed": seed,
            "statement": claim.statement,
            "outcome": claim.outcome,
            "numbers": claim.numbers,
            "correction": claim.correction,
        }
        for claim in claims
    ]
    merged = sorted(others + mine, key=lambda claim: claim["experiment"])
    _save_json(path, merged)
