"""Fit a low-rank matrix to entries of which a part is grossly wrong; the rank is found."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from .._checks import check_kind, check_whole
from .._dtype import precision_context, to_numpy
from .._typing import Parameters
from ..losses import SquaredL2
from ..maps import PSD, LowRank
from ..operators import Entries, Identity
from ..problem import Composite
from ._components_of_entries import MatrixMap, factors_of, of_rank
from ._entrywise_steps import LEVEL
from ._linearised import weights_of
from ._rank_search import RankSearch, Watch


class Start(NamedTuple):
    """How a fit begins."""

    price: float | None = None
    """Of errors in principal component pursuit, from which it starts if entries are stored as a
    table; None: it starts from nothing."""
    height: float = LEVEL
    """On the way residuals are clipped at so many standard deviations of the bulk, and those above
    its square count for nothing."""
    squared: bool = False
    """As if nothing were grossly wrong."""


FROM_NOTHING = Start()
# With a lower level, outliers of a few standard deviations that have neighbours, such as a dark
# patch in a picture, are not fitted in part, after which they would look like noise. But components
# of a minority of the rows are missed.
SHARP = Start(height=1.5)
# Of a narrow table a robust fit can go through half of the entries whatever they are. If nothing is
# wrong, plain least squares are better.
LEAST_SQUARES = Start(squared=True)


class EntrywiseFit(NamedTuple):
    """A low-rank matrix that fits most of its observed entries."""

    map: MatrixMap
    """Of the rank that was found."""
    x: Parameters
    """Balanced factors of that rank; columns of zeros if no rank was found."""
    residual: np.ndarray
    """``operator(map(x)) - data``."""
    steps: int
    passes: int
    """How often the observations were read: three times a step."""
    converged: bool
    """Whether the bulk of the residuals stopped shrinking, at rounding errors or at noise; False
    also if there is nothing in the data that looks like a component."""
    interrupted: bool
    """Whether the watch, or Ctrl-C, put an end to it."""


def fit_entries(
    problem: Composite,
    *,
    seed: int = 0,
    max_steps: int = 2000,
    watch: Watch | None = None,
    start: Start = FROM_NOTHING,
) -> EntrywiseFit:
    """Fit a low-rank matrix to observed entries, a part of them grossly wrong, and find its rank.

    Parameters
    ----------
    problem : Composite
        Its map is `LowRank` or `PSD`, whose rank bounds that of the fit, its operator `Identity`
        or `Entries`. Observations of weight 0 in the loss are missing. A squared loss has no
        outliers; otherwise the loss does not matter.
    seed : int
        Of the places from which the bulk of the residuals is judged, and of the probes for
        components.
    max_steps : int
        At most so many steps in all.
    watch : callable, optional
        Called as ``watch(steps, rank, scale)`` now and then, ``scale`` the standard deviation of
        the bulk of the residuals; returns True to stop.
    start : Start
        Where and how to begin.

    Returns
    -------
    EntrywiseFit
        The map of the rank found, parameters, and the residual that shows the outliers.

    Examples
    --------
    >>> import numpy as np
    >>> import lemmax as lm
    >>> from lemmax.recovery._entrywise import fit_entries
    >>> rng = np.random.default_rng(0)
    >>> truth = np.outer(rng.standard_normal(40), rng.standard_normal(30))
    >>> data = np.where(rng.random(truth.shape) < 0.1, 5.0, truth)
    >>> problem = lm.Composite(lm.losses.L1(), lm.maps.LowRank((40, 30), rank=4), data)
    >>> fit = fit_entries(problem)
    >>> fit.map.rank, bool(np.allclose(fit.map(fit.x).dense(), truth))
    (1, True)
    """
    check_kind("problem", problem, Composite, "a Composite problem")
    check_whole(0, seed=seed, max_steps=max_steps)
    if not isinstance(problem.map, (LowRank, PSD)):
        raise TypeError(f"The map must be LowRank or PSD; got {type(problem.map).__name__}.")
    if not isinstance(problem.operator, (Identity, Entries)):
        name = type(problem.operator).__name__
        raise TypeError(f"The operator must be Identity or Entries; got {name}.")
    rng = np.random.default_rng(seed)
    if start.squared:
        weights = weights_of(problem) ** 2  # they belong to the residuals, not to their squares
        squares = SquaredL2(weights=jnp.asarray(weights, problem.data.dtype))
        problem = Composite(squares, problem.map, problem.data, problem.operator)
    with precision_context(problem):
        search = RankSearch(problem, rng, max_steps, watch, start.height)
        interrupted = False
        try:
            if start.price is not None and isinstance(search.observed.operator, Identity):
                search.start_convex(start.price)
            search.run()
        except KeyboardInterrupt:
            interrupted = True
        map = of_rank(search.map, max(1, search.rank))
        root = jnp.sqrt(search.observed.unit)
        x = jax.tree.map(lambda factor: root * factor, factors_of(map, search.found, search.dtype))
        residual, _ = problem.operator.residual(map(x), problem.data)
        return EntrywiseFit(
            map=map,
            x=to_numpy(x),
            residual=np.asarray(residual),
            steps=search.steps,
            passes=search.passes + 1,
            converged=search.collapsed or (search.rank > 0 and not (search.stopped or interrupted)),
            interrupted=interrupted or search.interrupted,
        )
