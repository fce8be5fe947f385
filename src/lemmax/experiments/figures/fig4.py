"""Figure 4: matrix sensing with a nonsmooth loss, the sum of absolute residuals.

The paper's text has the damping 1e-5 h, its code 1e-3 h. Both are run: ``LMM`` is that of the code,
which is faster if the rank is over-estimated.
"""

import lemmax as lm

from ..harness import Claim, Experiment, Facts, Job, Settings, Table
from . import _sensing as sensing

_PRINTED = "LMM (1e-5 h)"


def methods(symmetric: bool) -> sensing.Methods:
    """The paper's methods; OPSA is only for asymmetric matrices, in the paper's variant."""
    chosen = {
        "LMM": lm.methods.lmm(damping=lm.damping.ProportionalToGap(1e-3)),
        _PRINTED: lm.methods.lmm(damping=lm.damping.ProportionalToGap(1e-5)),
        "subgradient": lm.methods.polyak_subgradient(),
    }
    if symmetric:
        return chosen
    return {**chosen, "OPSA": lm.methods.rebalanced(lm.methods.opsa(1e-8))}


def jobs(settings: Settings, seed: int) -> list[Job]:
    """One for each array of measurements."""
    return sensing.jobs(settings, seed, lm.losses.L1(), methods)


def claims(table: Table, facts: Facts) -> list[Claim]:
    """The paper's claims about this figure."""
    lmm, lmm_says = sensing.reaches_everywhere(table, 1e-12, method="LMM")
    printed, printed_says = sensing.reaches_everywhere(table, 1e-12, method=_PRINTED)
    floors = sensing.best_errors(table, method="OPSA", rank=5)
    exact = sensing.counts(table, 1e-12, method="OPSA", rank=2)
    over = {"rank": 5}
    codes = [s or 0 for s in sensing.counts(table, 1e-10, method="LMM", **over)]
    texts = [s or 0 for s in sensing.counts(table, 1e-10, method=_PRINTED, **over)]
    faster = sum(a < b for a, b in zip(codes, texts, strict=True))
    return [
        Claim(
            "LMM converges linearly to the solution in every setting.",
            lmm and printed,
            f"damping 1e-3 h: {lmm_says}; damping 1e-5 h: {printed_says}.",
        ),
        Claim(
            "OPSA, whose damping is fixed, converges linearly only to a neighbourhood of the "
            "solution when the rank is over-estimated.",
            all(floor > 1e-11 for floor in floors) and all(s is not None for s in exact),
            f"rank 5: the smallest error is {min(floors):.0e} to {max(floors):.0e}; rank 2, where "
            "nothing is superfluous: to 1e-12 as well.",
        ),
        sensing.plain_method_fails(table, "subgradient"),
        sensing.rate_free_of_dimension(table),
        Claim(
            "The damping 1e-5 h that the text prints is the one to use.",
            faster == 0,
            f"rank 5: {min(codes)} to {max(codes)} iterations to 1e-10 with 1e-3 h, "
            f"{min(texts)} to {max(texts)} with 1e-5 h.",
            correction="With over-estimated rank 1e-3 h, the value in the paper's code, is faster.",
            correction_holds=faster == len(codes),
        ),
        *sensing.costs_little(facts),
    ]


EXPERIMENT = Experiment(
    "fig4",
    "Figure 4: matrix sensing, absolute loss",
    minutes=9,
    settings=sensing.SETTINGS,
    jobs=jobs,
    claims=claims,
    draw=sensing.draw,
)
