"""The plot of `cg`: one line per setting against the number of iterations."""

from typing import Any

import numpy as np

from ..harness import Table, panels

CLOSED = 0
"""Represents the closed form as a number of iterations."""
SYMMETRIC = "symmetric"
SOLVED = 1e-10
"""The relative error that counts as solved."""


def draw(table: Table) -> Any:
    """LMM iterations to 1e-10, and errors reached, against CG iterations; one line per setting."""
    pairs = [key for key, _ in table.groups("figure", "true_rank")]
    numbers = table.unique("iterations")
    names = ["closed\nform" if n == CLOSED else str(n) for n in numbers]
    never = 3 * max(int(table.column("steps").max()), 1)
    figure, axes = panels(2, len(pairs), width=3.1, height=3.0)
    for column, (of_figure, true_rank) in enumerate(pairs):
        upper, lower = axes[:, column]
        chosen = table.where(figure=of_figure, true_rank=true_rank)
        for (kind, rank, condition), rows in chosen.groups("kind", "rank", "condition"):
            steps, style = rows.column("steps"), _style(kind, rank == true_rank, condition == 1)
            upper.semilogy(np.where(steps >= 0, steps, never), **style)
            lower.semilogy(np.maximum(rows.column("error"), 1e-14), **style)
        upper.axhline(never, color="0.6", lw=0.8)
        upper.text(len(numbers) - 1, never, "never", va="bottom", ha="right", fontsize="small")
        upper.set_title(f"figure {of_figure}, truth of rank {true_rank}", fontsize="medium")
        upper.set_ylim(10, never * 2)
        lower.axhline(SOLVED, color="0.6", lw=0.8)
        lower.set_ylim(5e-15, 1e-3)
        lower.set_xlabel("CG iterations in a step")
        for ax in (upper, lower):
            ax.set_xticks(range(len(numbers)), names)
            ax.grid(True, which="major", alpha=0.3)
    axes[0, 0].set_ylabel("LMM iterations to 1e-10")
    axes[1, 0].set_ylabel("smallest error")
    figure.legend(handles=_legend(), loc="outside lower center", ncols=6, fontsize="small")
    return figure


def _style(kind: str, exact: bool, easy: bool) -> dict[str, Any]:
    return {
        "color": "#0072b2" if exact else "#d55e00",
        "linestyle": "-" if kind == SYMMETRIC else (0, (4, 2)),
        "marker": "o" if easy else "s",
        "markersize": 4,
    }


def _legend() -> list[Any]:
    from matplotlib.lines import Line2D

    entries: list[tuple[str, dict[str, Any]]] = [
        ("exact rank", {"color": "#0072b2"}),
        ("over-estimated by 3", {"color": "#d55e00"}),
        ("symmetric", {"color": "0.3"}),
        ("asymmetric", {"color": "0.3", "linestyle": (0, (4, 2))}),
        ("condition 1", {"color": "0.3", "marker": "o", "linestyle": ""}),
        ("condition 100", {"color": "0.3", "marker": "s", "linestyle": ""}),
    ]
    return [Line2D([], [], label=label, **style) for label, style in entries]
