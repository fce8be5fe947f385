"""An HTML report on all reproduced experiments in a folder."""

import json
import pathlib
from collections import Counter
from collections.abc import Sequence
from typing import Any

from ... import page
from ..._files import save_text
from .provenance import PAPER_MACHINE
from .runner import read_claims

_TONES = {
    "supported": "good",
    "corrected": "caution",
    "undecided": "plain",
    "not supported": "bad",
}
_PAPER = (
    "Preconditioned subgradient method for composite optimization: overparameterization and "
    "fast convergence"
)


def write_report(out: pathlib.Path) -> None:
    """Write ``report.html`` on all experiments whose results are in a folder."""
    records = _records(out)
    claims = read_claims(out)
    of = {
        record["name"]: [c for c in claims if c["experiment"] == record["name"]]
        for record in records
    }
    save_text(
        out / "report.html",
        page.page(
            "The paper, measured",
            _introduction(records, of),
            *(_section(out, record, of[record["name"]]) for record in records),
        ),
    )


def _records(out: pathlib.Path) -> list[dict[str, Any]]:
    """The results that have a picture, in the order of the names."""
    drawn = sorted(path.with_suffix(".json") for path in out.glob("*.png"))
    return [json.loads(path.read_text(encoding="utf-8")) for path in drawn if path.exists()]


def _introduction(records: Sequence[dict[str, Any]], of: dict[str, list[Any]]) -> page.Markup:
    rows = [
        [
            page.link(record["title"], f"#{record['name']}"),
            _badges(of[record["name"]]),
            record["size"],
            _duration(record["seconds"]),
        ]
        for record in records
    ]
    machines = dict.fromkeys(_machine(record) for record in records)
    return page.markup(
        page.paragraph(
            f"Figures and tables of “{_PAPER}”, recomputed with lemmax, with a test of each claim. "
            "Supported: it holds as stated. Corrected: it does not, but the statement below does. "
            "Not supported: neither does."
        ),
        page.table(["experiment", "claims", "size", "time"], rows),
        page.paragraph("Computed on: ", "; ".join(machines), "."),
        page.paragraph("The paper’s machine: ", PAPER_MACHINE),
    )


def _badges(claims: Sequence[dict[str, Any]]) -> page.Markup:
    counts = Counter(claim["outcome"] for claim in claims)
    shown = [
        page.markup(page.badge(f"{counts[outcome]} {outcome}", tone), " ")
        for outcome, tone in _TONES.items()
        if counts[outcome]
    ]
    return page.markup(*shown)


def _section(
    out: pathlib.Path, record: dict[str, Any], claims: Sequence[dict[str, Any]]
) -> page.Markup:
    name = record["name"]
    quick = record["size"] == "quick"
    return page.section(
        record["title"],
        page.paragraph("A quick run: fewer or smaller problems than at full size.")
        if quick
        else page.Markup(),
        page.picture(out / f"{name}.png", record["title"]),
        *(_claim(claim) for claim in claims),
        *(
            page.markup(
                page.heading(summary["title"]),
                page.table(summary["header"], summary["rows"]),
                page.paragraph(summary["remark"], faint=True),
            )
            for summary in record["summaries"]
        ),
        page.paragraph(
            f"Seed {record['seed']}, {record['size']} size, {_duration(record['seconds'])} on "
            f"{_machine(record)}.",
            faint=True,
        ),
        page.details(
            "Settings, versions and times",
            _pairs("setting", record["settings"]),
            _pairs("version", record["versions"]),
            _pairs("seconds", record["seconds_per_job"]),
        ),
        name=name,
    )


def _claim(claim: dict[str, Any]) -> page.Markup:
    outcome = claim["outcome"]
    correction = claim["correction"] if outcome != "supported" else None
    return page.card(
        page.paragraph(page.badge(outcome, _TONES[outcome]), " ", claim["statement"]),
        page.paragraph("Instead: ", correction) if correction else page.Markup(),
        page.paragraph(claim["numbers"], faint=True),
    )


def _pairs(title: str, entries: dict[str, Any]) -> page.Markup:
    return page.table([title, ""], [[key, _text(value)] for key, value in entries.items()])


def _text(value: Any) -> str:
    if isinstance(value, list):
        return ", ".join(map(_text, value))
    if isinstance(value, dict):
        return "; ".join(f"{key}: {_text(entry)}" for key, entry in value.items())
    return f"{value:g}" if isinstance(value, float) else str(value)


def _machine(record: dict[str, Any]) -> str:
    machine = record["machine"]
    return (
        f"{machine['processor'] or 'unknown processor'}, {machine['cores']} cores, "
        f"{machine['memory_gib']} GiB, {machine['system']}"
    )


def _duration(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.1f} min"
