"""The result of `lemmax.recover`."""

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
    """The result of `lemmax.recover`: a point, its rank, outliers, noise level and verdict.

    The data support the answer only if ``status.succeeded``.
    """

    point: AbstractPoint
    """The point; ``point.dense()`` is the matrix or tensor itself."""
    x: Parameters
    """Its parameters, with the rank that was found."""
    map: AbstractMap | None
    """The map with the rank that was found; None after loading if it was a user's function."""
    status: RecoveryStatus
    residual: np.ndarray
    """Observations of the point minus the data; NaN where data are missing."""
    outliers: Any
    """Indices of the outliers: ``data[outliers]`` are their values."""
    noise: float
    """Standard deviation of the noise at inliers; 0 if they are exact."""
    expected_error: float
    """Expected relative error of the point, from noise or rounding errors."""
    freedom: int
    """Degrees of freedom of a point of this rank."""
    needed: int
    """The number of observations that theory requires."""
    observations: int
    """The number of observations."""
    objections: tuple[str, ...]
    """Why the answer is not certified; empty if it is."""
    passes: int
    """How often the measurements were applied, forward or adjoint; twice in a step of LMM."""
    steps: int
    seconds: float
    """Wall-clock time, including compilation."""
    rank: int | None = None
    """Number of terms; None for a map without terms."""
    rank_bound: int | None = None
    """The given bound on the rank."""
    sizes: np.ndarray | None = None
    """Sizes of the terms, largest first: singular values of a matrix, or of the unfoldings of a
    tensor. Those beyond the rank were cut off."""
    doubtful: tuple[list[int], ...] = ()
    """For observed entries: rows and columns, or slices, that the data do not determine, one list
    for each mode. A certified answer may be wrong there; without them, there may be a certified
    answer for the rest."""

    @property
    def outlier_count(self) -> int:
        """The number of outliers."""
        first = self.outliers[0] if isinstance(self.outliers, tuple) else self.outliers
        return len(first)

    @property
    def outlier_fraction(self) -> float:
        """The share of outliers."""
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

    def check_saved(self) -> None:
        """Raise an error if the parts, read from a file, do not fit together."""
        try:
            self.residual[self.outliers]
        except (IndexError, TypeError) as error:
            raise ValueError("its outliers are not places of its residuals") from error
        if self.map is not None:
            self.map.check_parameters(self.x)

    def named(self, *names: Naming) -> "Recovery":
        """A copy whose objections name rows and columns: one function for each mode."""
        said = (o.named(names) if isinstance(o, Objection) else o for o in self.objections)
        return dataclasses.replace(self, objections=tuple(said))

    def as_dict(self) -> dict[str, Any]:
        """All numbers as a dict for JSON or a table; unknown and infinite ones are None."""
        names = (
            "rank rank_bound outlier_count outlier_fraction noise expected_error rank_gap "
            "residual_gap freedom needed observations passes steps seconds"
        )
        facts: dict[str, Any] = {"status": self.status.name, "objections": list(self.objections)}
        numbers = {name: getattr(self, name) for name in names.split()}
        unknown = {name for name, n in numbers.items() if n is None or not np.isfinite(n)}
        return facts | {name: None if name in unknown else n for name, n in numbers.items()}

    def summary(self) -> str:
        """The result in a few lines."""
        status, rows = self.status, []
        stopped, exact = status is RecoveryStatus.INTERRUPTED, status is RecoveryStatus.EXACT
        if self.rank is not None:
            bound = "" if self.rank_bound is None else f" (bound {self.rank_bound})"
            sentence = (
                "it fits exactly without the others; when they were cut off, the smallest term "
                "kept was {} times the largest of them"
                if exact
                else "the smallest term kept is {} times the largest cut off"
            )
            rows.append(("rank", f"{self.rank}{bound}{_times(self.rank_gap, sentence)}"))
        if not stopped:  # else nothing of this is known
            gap = _times(self.residual_gap, "the smallest is {} times the largest other residual")
            share = f"{self.outlier_count} of {self.observations} ({self.outlier_fraction:.1%})"
            noise = "none" if exact else f"{self.noise:.3g} (standard deviation)"
            needed = f"{self.freedom} degrees of freedom; theory asks for {self.needed}"
            rows += [
                ("outliers", share + gap),
                ("noise", noise),
                ("expected error", f"{self.expected_error:.1e} (relative)"),
                ("observations", f"{self.observations} for {needed}"),
            ]
        passes = f"{self.passes} passes over the data, {self.steps} steps"
        rows.append(("effort", f"{passes}, {self.seconds:.2f} s"))
        reasons = [] if stopped else [f"  Because {objection}." for objection in self.objections]
        listed = [f"{name:<16}{text}" for name, text in rows]
        return "\n".join([f"{status.name}: {status.message}", *reasons, *listed])

    def save(self, path: str | pathlib.Path) -> None:
        """Write it to a file without pickle; `lemmax.load` reads it.

        Functions are not saved: the map of a user's function is None after loading, unless it is
        given to `load`.

        Parameters
        ----------
        path : str or Path
            Usually with the suffix ``.safetensors``.
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
    """Whether a map consists of numbers alone."""
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
"""The types that the file of a recovery may hold."""
