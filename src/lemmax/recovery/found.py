"""What `lemmax.recover` hands over: the answer, and what is known about it."""

import dataclasses
import pathlib
from typing import Any

import numpy as np

from .. import maps
from .._plain import Describing, Kinds
from .._storage import write
from .._typing import Parameters
from ..maps import AbstractMap
from ..points import AbstractPoint, DensePoint, KruskalPoint
from ..status import RecoveryStatus
from ._objections import Naming, Objection


@dataclasses.dataclass(frozen=True, eq=False)
class Recovery:
    """The outcome of `lemmax.recover`.

    `point`, `x`, `residual` and `sizes` are arrays; all the rest are numbers and names. Nothing in
    it is to be believed unless ``status.succeeded``.
    """

    point: AbstractPoint
    """The point; ``point.dense()`` is the matrix or tensor itself."""
    x: Parameters
    """Its parameters, of the rank that was found."""
    map: AbstractMap | None
    """The map that makes the point of the parameters, of the rank that was found; None of a file,
    if it was a function of the user's."""
    status: RecoveryStatus
    rank: int | None
    """Number of terms; None for a map without them."""
    rank_bound: int | None
    """The rank that was given."""
    sizes: np.ndarray | None
    """Sizes of the terms, largest first: singular values of a matrix (of a tensor: those of its
    unfoldings). Those beyond the rank are what was cut off."""
    residual: np.ndarray
    """Observations of the point less the data; NaN where the data are missing."""
    outliers: Any
    """Where the data are wrong: indices into the data, so that ``data[outliers]`` are those."""
    noise: float
    """Standard deviation of the noise on the other data; 0 if they are exact."""
    expected_error: float
    """Relative error of the point to expect from noise or rounding errors."""
    freedom: int
    """Degrees of freedom of a point of this rank."""
    needed: int
    """The number of observations that theory asks for."""
    observations: int
    """The number of observations there are."""
    objections: tuple[str, ...]
    """Why the answer is not to be believed; empty if it is."""
    passes: int
    """How often the measurements were read, forward or adjoint; a step of LMM takes two."""
    steps: int
    seconds: float
    """Time it took, compilation included."""
    doubtful: tuple[list[int], ...] = ()
    """Of entries: rows and columns, or slices of each mode, of which so much is missing or wrong
    that too little is known about them. Without these, there may be an answer for the others; an
    answer that holds in spite of them may be wrong there."""

    @property
    def outlier_count(self) -> int:
        """How many data are wrong."""
        first = self.outliers[0] if isinstance(self.outliers, tuple) else self.outliers
        return len(first)

    @property
    def outlier_fraction(self) -> float:
        """Their share."""
        return self.outlier_count / self.observations

    @property
    def rank_gap(self) -> float:
        """The smallest term that was kept, divided by the largest that was cut off."""
        if self.sizes is None or self.rank is None or not 0 < self.rank < len(self.sizes):
            return float("nan")
        cut = float(self.sizes[self.rank])
        return float(self.sizes[self.rank - 1]) / cut if cut > 0 else float("inf")

    @property
    def residual_gap(self) -> float:
        """The smallest residual of an outlier, divided by the largest of the other data."""
        sizes = np.abs(self.residual)
        wrong = np.zeros(sizes.shape, bool)
        wrong[self.outliers] = True
        if not np.any(wrong) or np.all(wrong):
            return float("nan")
        inside = float(np.nanmax(sizes[~wrong]))
        return float(np.min(sizes[wrong])) / inside if inside > 0 else float("inf")

    def named(self, *names: Naming) -> "Recovery":
        """With objections in which rows and columns have names: one function for each mode."""
        said = (o.named(names) if isinstance(o, Objection) else o for o in self.objections)
        return dataclasses.replace(self, objections=tuple(said))

    def as_dict(self) -> dict[str, Any]:
        """Numbers and names, without the arrays: to be written as JSON, or put in a table.

        What is unknown or infinite is None.
        """
        names = (
            "rank rank_bound outlier_count outlier_fraction noise expected_error rank_gap "
            "residual_gap freedom needed observations passes steps seconds"
        )
        facts: dict[str, Any] = {"status": self.status.name, "objections": list(self.objections)}
        numbers = {name: getattr(self, name) for name in names.split()}
        unknown = {name for name, n in numbers.items() if n is None or not np.isfinite(n)}
        return facts | {name: None if name in unknown else n for name, n in numbers.items()}

    def summary(self) -> str:
        """What was found, in a few lines."""
        status = self.status
        exact = status is RecoveryStatus.EXACT
        lines = [f"{status.name}: {status.message}"]
        if status is not RecoveryStatus.INTERRUPTED:
            lines += [f"  Because {objection}." for objection in self.objections]
        if self.rank is not None:
            bound = "" if self.rank_bound is None else f" (bound {self.rank_bound})"
            sentence = (
                "it fits exactly without the others, which were {} times smaller when cut off"
                if exact
                else "the smallest term kept is {} times the largest cut off"
            )
            gap = _times(self.rank_gap, sentence)
            lines.append(f"rank            {self.rank}{bound}{gap}")
        effort = (
            f"effort          {self.passes} passes over the data, {self.steps} steps, "
            f"{self.seconds:.2f} s"
        )
        if status is RecoveryStatus.INTERRUPTED:  # nothing else is known
            return "\n".join([*lines, effort])
        gap = _times(self.residual_gap, "the smallest is {} times the largest other residual")
        lines.append(
            f"outliers        {self.outlier_count} of {self.observations} "
            f"({self.outlier_fraction:.1%}){gap}"
        )
        lines += [
            f"noise           {'none' if exact else f'{self.noise:.3g} (standard deviation)'}",
            f"expected error  {self.expected_error:.1e} (relative)",
            f"observations    {self.observations} for {self.freedom} degrees of freedom; "
            f"theory asks for {self.needed}",
            effort,
        ]
        return "\n".join(lines)

    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a file, without pickle; `lemmax.load` reads it.

        A function of one's own is not saved: its map is None then, unless `load` is given it.

        Parameters
        ----------
        path : str or Path
            By custom with the suffix ``.safetensors``.
        """
        kept = dataclasses.replace(self, map=self.map if _is_plain(self.map) else None)
        write(path, "Recovery", kept, KINDS)

    def __str__(self) -> str:
        return self.summary()

    def __repr__(self) -> str:
        return f"<Recovery {self.status.name}, rank {self.rank}>"


def _times(gap: float, sentence: str) -> str:
    return "" if np.isnan(gap) else f": {sentence.format(f'{gap:.3g}')}"


def _is_plain(map: AbstractMap | None) -> bool:
    """Whether a map is made of numbers alone."""
    try:
        Describing(KINDS, {}).node(map, "map")
    except TypeError:
        return False
    return True


_MAPS = (maps.PSD, maps.LowRank, maps.CP, maps.SymmetricCP, maps.Square, maps.Composed)
_PARTS = (maps.Squares, maps.WithFixed, maps.DirectSolver, maps.ConjugateGradients)
KINDS = Kinds(
    Recovery,
    RecoveryStatus,
    DensePoint,
    KruskalPoint,
    *_MAPS,
    *_PARTS,
    special={
        Objection: (
            lambda said: [said.sentence, [list(map(int, some)) for some in said.lines]],
            lambda parts: Objection(parts[0], tuple(parts[1])),
        )
    },
)
"""What the file of a recovery may hold."""
