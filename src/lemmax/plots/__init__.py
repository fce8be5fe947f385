"""Plots with matplotlib, which is imported on first use."""

from typing import TYPE_CHECKING

from .._lazy import lazy

if TYPE_CHECKING:
    from .answers import before_after as before_after
    from .answers import factors as factors
    from .answers import recovery as recovery
    from .fits import fit as fit
    from .regressions import regression as regression
    from .runs import compare as compare
    from .runs import convergence as convergence
    from .tables import component_map as component_map
    from .tables import predicted_against_observed as predicted_against_observed
    from .tables import residual_map as residual_map
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "answers": (
                "before_after",
                "factors",
                "recovery",
            ),
            "fits": ("fit",),
            "regressions": ("regression",),
            "runs": (
                "compare",
                "convergence",
            ),
            "tables": (
                "component_map",
                "predicted_against_observed",
                "residual_map",
            ),
        },
    )
