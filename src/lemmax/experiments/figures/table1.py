"""The paper's Table 1, measured: how each method converges in each setting.

The paper ticks a method if a theorem guarantees local linear convergence at a rate that depends on
h alone. Here every method is run in every setting it accepts, and its trace is classified.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import lemmax as lm

from ..harness import (
    Claim,
    Experiment,
    Facts,
    Job,
    Settings,
    Summary,
    Table,
    Watch,
    error_of,
    panels,
    part_of,
    run,
    seconds_per_step,
)
from ..harness import Outcome as JobOutcome
from ._table1_cells import ENTRIES, SETTINGS, Cell, Entry, Outcome, Setting, classify

SETTINGS_BY_SIZE = {
    "full": {
        "dim": 40,
        "steps": 800,
        "conditions": [1.0, 100.0],
        "kinds": [str(setting) for setting in SETTINGS],
    },
    # Half of the settings, in which every row of the paper has a tick, and the harder truth.
    "quick": {
        "dim": 24,
        "steps": 700,
        "conditions": [100.0],
        "kinds": [
            "symmetric, smooth, over",
            "symmetric, nonsmooth, exact",
            "asymmetric, smooth, exact",
            "asymmetric, nonsmooth, over",
        ],
    },
}


def jobs(settings: Settings, seed: int) -> list[Job]:
    """One for each setting and condition number."""
    return [
        _job(settings, seed, setting, condition)
        for setting in SETTINGS
        if str(setting) in settings["kinds"]
        for condition in settings["conditions"]
    ]


def _job(settings: Settings, seed: int, setting: Setting, condition: float) -> Job:
    def work(watch: Watch) -> JobOutcome:
        instance = setting.instance(seed, condition, settings["dim"])
        rows, facts = [], {}
        for k, entry in enumerate(ENTRIES):
            method = entry.make()
            outcome = Outcome("refused", float("nan"), float("nan"))
            if _accepts(method, instance.problem):
                told = part_of(watch, k, len(ENTRIES))
                result = run(told, instance, method, settings["steps"])
                outcome = classify(error_of(result))
                facts[f"{entry.name}: seconds per step"] = seconds_per_step(result)
            rows.append(
                {
                    "method": entry.name,
                    **setting._asdict(),
                    "condition": condition,
                    **outcome._asdict(),
                    "ticked_in_paper": entry.ticked(setting),
                }
            )
        return JobOutcome(Table.from_rows(rows), facts)

    return Job(f"{str(setting).replace(', ', '-')}-condition={condition:g}", work)


def _accepts(method: lm.methods.AbstractMethod, problem: lm.Composite) -> bool:
    try:
        method.scope.check(problem)
    except ValueError:
        return False
    return True


def cells(table: Table) -> list[Cell]:
    """The measurements, method by method, in the order of the paper's table."""
    entries = {entry.name: entry for entry in ENTRIES}
    grouped = table.groups("method", *Setting._fields)
    found = []
    for (name, *where), rows in grouped:
        outcomes = {
            row["condition"]: Outcome(row["kind"], row["best"], row["rate"]) for row in rows.rows()
        }
        found.append(Cell(entries[name], Setting(*where), outcomes))
    order = list(entries)
    return sorted(found, key=lambda cell: order.index(cell.entry.name))


def claims(table: Table, facts: Facts) -> list[Claim]:
    """One claim for each row of the paper's table, and one for its crosses."""
    by_method: dict[str, list[Cell]] = {}
    for cell in cells(table):
        by_method.setdefault(cell.entry.name, []).append(cell)
    rows = [_row_claim(entry, by_method[entry.name]) for entry in ENTRIES if entry.in_paper]
    return [*rows, _cross_claim([cell for row in by_method.values() for cell in row])]


def _row_claim(entry: Entry, row: Sequence[Cell]) -> Claim:
    ticked = [cell for cell in row if cell.ticked]
    good = [cell for cell in ticked if cell.linear]
    bad = [cell for cell in ticked if not cell.linear]
    aim = " to a neighbourhood of the solution" if entry.neighbourhood else ""
    numbers = [f"{len(good)} of {len(ticked)} ticked settings converge as stated"]
    numbers += [f"{cell.setting}: {'no such form' if cell.refused else cell}" for cell in bad]
    correction, applies = CORRECTIONS.get(entry.name, (None, None))
    return Claim(
        f"{entry.name} converges linearly{aim} in the settings with a tick, whatever the condition "
        "number.",
        not bad,
        "; ".join(numbers) + f". {entry.remark}".rstrip(),
        correction=correction,
        correction_holds=None if applies is None else all(applies(cell) for cell in ticked),
    )


# A corrected claim for a row, and whether a ticked cell satisfies it.
CORRECTIONS: dict[str, tuple[str, Callable[[Cell], bool]]] = {
    "Approximated GN": (
        "It has no symmetric form; symmetric matrices have to be parameterised asymmetrically. "
        "In the asymmetric settings it converges linearly.",
        lambda cell: cell.refused if cell.setting.symmetric else cell.linear,
    ),
    "OPSA": (
        "With superfluous columns it converges linearly to a neighbourhood that its fixed damping "
        "sets; without, to the solution.",
        lambda cell: cell.is_near if cell.setting.overparameterised else cell.linear,
    ),
}


def _cross_claim(measured: Sequence[Cell]) -> Claim:
    crossed = [cell for cell in measured if cell.entry.in_paper and not cell.ticked]
    linear = [cell for cell in crossed if cell.linear and cell.setting.overparameterised]
    steady = [c for c in measured if c.entry.name == "LMM" and c.setting.overparameterised]
    plain = [c for c in measured if not c.entry.in_paper and c.setting.overparameterised]
    return Claim(
        "A method without a tick for superfluous columns does not converge linearly there; "
        "Gauss-Newton (GNP) diverges.",
        not linear,
        "Linear without that tick: "
        + ("; ".join(f"{c.entry.name} ({c.setting})" for c in linear) or "none")
        + ".",
        correction=(
            "What is missing is the theorem. From random starts near the solution several of these "
            "methods converge linearly, too; Figure 1 shows starts from which Gauss-Newton does "
            "not. LMM always does; the plain Polyak subgradient method, from these starts, never."
        ),
        correction_holds=bool(linear)
        and all(cell.linear for cell in steady)
        and not any(cell.linear for cell in plain),
    )


def summaries(table: Table) -> list[Summary]:
    """The symmetric and the asymmetric half of the table."""
    measured = cells(table)
    remark = (
        f"✓ linear to the solution, with the factor per step for {_conditions(table)}; "
        "floor: linear to a neighbourhood; ✗ slower, with the smallest error; - not expressible; "
        "* ticked in the paper."
    )
    halves = []
    for symmetric, title in ((True, "Symmetric"), (False, "Asymmetric")):
        half = [cell for cell in measured if cell.setting.symmetric == symmetric]
        settings = list(dict.fromkeys(cell.setting for cell in half))
        rows = [
            [entry.name]
            + [f"{c}{' *' if c.ticked else ''}" for c in half if c.entry.name == entry.name]
            for entry in ENTRIES
        ]
        header = ["method", *(str(setting).split(", ", 1)[1] for setting in settings)]
        halves.append(Summary(title, header, rows, remark if not symmetric else ""))
    return halves


_SHADES = {
    "linear": "#cdebd9",
    "neighbourhood": "#fbe9c0",
    "sublinear": "#f6d3d3",
    "diverges": "#e9a9ad",
    "refused": "#eeeeee",
}


def draw(table: Table) -> Any:
    """A coloured table: green linear, yellow to a floor, red slower; the paper's ticks framed."""
    from matplotlib.patches import Patch, Rectangle

    measured = cells(table)
    settings = list(dict.fromkeys(cell.setting for cell in measured))
    names = [entry.name for entry in ENTRIES]
    figure, axes = panels(1, 1, width=3.2 + 1.45 * len(settings), height=6.2)
    ax = axes[0, 0]
    for cell in measured:
        column, row = settings.index(cell.setting), names.index(cell.entry.name)
        # One strip for each condition number.
        height = 1 / len(cell.outcomes)
        for k, outcome in enumerate(cell.outcomes.values()):
            corner = (column, row + k * height)
            ax.add_patch(Rectangle(corner, 1, height, fc=_SHADES[outcome.kind], ec="white"))
            middle = (column + 0.5, row + (k + 0.5) * height)
            ax.text(*middle, str(outcome), ha="center", va="center", fontsize=8)
        if cell.ticked:
            inset = (column + 0.04, row + 0.05)
            ax.add_patch(Rectangle(inset, 0.92, 0.9, fill=False, ec="#1c4f8a", lw=1.8))
    ax.set_xlim(0, len(settings))
    ax.set_ylim(len(names), 0)
    ax.set_yticks(np.arange(len(names)) + 0.5, names)
    labels = [str(setting).replace(", ", "\n") for setting in settings]
    ax.set_xticks(np.arange(len(settings)) + 0.5, labels)
    ax.xaxis.tick_top()
    ax.tick_params(length=0)
    for side in ax.spines.values():
        side.set_visible(False)
    texts = {
        "linear": "linear to the solution (factor per step)",
        "neighbourhood": "linear to a floor",
        "sublinear": "slower (smallest error)",
        "diverges": "diverges",
        "refused": "not expressible",
    }
    patches = [Patch(fc=_SHADES[kind], label=text) for kind, text in texts.items()]
    patches.append(Patch(fill=False, ec="#1c4f8a", lw=1.8, label="ticked in the paper"))
    figure.legend(handles=patches, loc="outside lower center", ncols=3, fontsize="small")
    ax.set_xlabel(f"lines of a cell: {_conditions(table)}")
    return figure


def _conditions(table: Table) -> str:
    shown = [f"{condition:g}" for condition in table.unique("condition")]
    return f"condition number{'s' if len(shown) > 1 else ''} {' and '.join(shown)}"


EXPERIMENT = Experiment(
    name="table1",
    title="Table 1: which method converges how in which setting",
    minutes=2,
    settings=SETTINGS_BY_SIZE,
    jobs=jobs,
    claims=claims,
    draw=draw,
    summaries=summaries,
)
