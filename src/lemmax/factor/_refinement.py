"""Factors of the right cells of a table without noise, by least squares."""

from typing import Any

import numpy as np

from . import _constants as constants
from ._cells import AbstractCells
from ._packed import doubled, moments, packed, unpacked
from ._sweeps import Model, Setting


class Refinement:
    """Least squares that change factors in place."""

    def __init__(
        self,
        cells: AbstractCells,
        model: Model,
        setting: Setting,
        factors: tuple[np.ndarray, np.ndarray] | None = None,
    ):
        self.cells, self.rank = cells, model.rank
        self.left, self.right = (
            each.copy() for each in factors or (model.left, model.right_factor)
        )
        # One column of each factor is 1: the location has no scores, a row effect no loadings.
        self._of_rows = np.delete(np.arange(self.left.shape[1]), model.rank)
        self._of_columns = np.arange(model.rank + setting.centred)
        self.steps = 0

    def residual(self) -> np.ndarray:
        return self.cells.values - self.cells.products(self.left, self.right)

    def sizes(self) -> np.ndarray:
        return np.abs(self.residual())

    def run(self, allowed: np.ndarray) -> None:
        """Least squares on the bulk of the residuals, which shrinks with them."""
        best, since = np.inf, 0
        for _ in range(constants.STEPS):
            self.steps += 1
            residual = self.residual()
            sizes = np.abs(residual)
            median = float(np.median(sizes[allowed]))
            if median <= constants.COLLAPSED:
                break
            level = max(constants.BULK * median, constants.COLLAPSED)
            self._gauss_newton(residual, (allowed & (sizes <= level)).astype(np.float64))
            best, since = (median, 0) if median < constants.HALF * best else (best, since + 1)
            if since >= constants.PATIENCE:
                break

    def polish(self, allowed: np.ndarray) -> None:
        """Least squares on all cells that are nearly explained, until the last of them is."""
        allowed = allowed & (self.sizes() <= constants.NEARLY_ROUNDING)
        best = np.inf
        while True:
            residual = self.residual()
            worst = float(np.max(np.abs(residual)[allowed], initial=0.0))
            if worst <= constants.COLLAPSED or worst > constants.HALF * best:
                break
            best = worst
            self.steps += 1
            self._gauss_newton(residual, allowed.astype(np.float64))

    def lost(self) -> tuple[bool, bool]:
        """Whether there are rows, and columns, of which less than most is explained."""
        explained = (self.sizes() <= constants.ROUNDING) * self.cells.known
        sums = (self.cells.row_sums, self.cells.column_sums)
        ones = (np.ones((size, 1)) for size in reversed(self.cells.shape))
        known, right = 1.0 * self.cells.known, 1.0 * explained
        rows, columns = (
            bool(np.any(total(right, one) < constants.HALF * total(known, one)))
            for total, one in zip(sums, ones, strict=True)
        )
        return rows, columns

    def seen(self, weights: np.ndarray) -> list[np.ndarray]:
        """Which rows, and which columns, have cells that tell all of their components."""
        seen = []
        for sums, design in (
            (self.cells.row_sums, self._row_design),
            (self.cells.column_sums, self._column_design),
        ):
            size = np.sqrt(np.mean(design**2, axis=0))
            grams = _grams(sums, weights, design[:, size > 0] / size[size > 0])
            values = np.linalg.eigvalsh(grams)
            least, most = values.min(axis=1, initial=np.inf), values.max(axis=1, initial=0.0)
            seen.append(least > constants.UNSEEN * most)
        return seen

    def leverages(self, right: np.ndarray) -> list[np.ndarray]:
        """At the cells: the weight of a right cell in the fit of its row, and of its column."""
        weights = 1.0 * right
        by_row = np.linalg.inv(_regular(_grams(self.cells.row_sums, weights, self._row_design)))
        by_column = np.linalg.inv(
            _regular(_grams(self.cells.column_sums, weights, self._column_design))
        )
        of_row, of_column = (
            moments(design) * doubled(design.shape[1])
            for design in (self._row_design, self._column_design)
        )
        return [
            self.cells.products(packed(by_row), of_row),
            self.cells.products(of_column, packed(by_column)),
        ]

    @property
    def _row_design(self) -> np.ndarray:
        return self.right[:, self._of_rows]

    @property
    def _column_design(self) -> np.ndarray:
        return self.left[:, self._of_columns]

    def anneal(self, rows: bool) -> None:
        """Rows (or columns) alone, from a loss in which nearly all cells count to a sharp one."""
        for level in np.geomspace(1.0, constants.COLLAPSED, constants.ANNEALING_LEVELS):
            residual = self.residual()
            self._step(residual, self.cells.known / (1 + (residual / level) ** 2), rows)

    def complete(self, rows: bool) -> None:
        """Least squares on all cells of rows (or columns), where these explain all of them."""
        own, known = (self.left if rows else self.right), 1.0 * self.cells.known
        before, lost = own.copy(), self._unexplained(rows)
        for _ in range(2):  # the second time for rounding errors
            self._step(self.residual(), known, rows)
        kept = (lost > 0) & (self._unexplained(rows) == 0)
        own[~kept] = before[~kept]

    def _unexplained(self, rows: bool) -> np.ndarray:
        """How many cells of each row (or column) are not explained."""
        cells = self.cells
        sums, others = (
            (cells.row_sums, cells.shape[1]) if rows else (cells.column_sums, len(self.left))
        )
        return sums(
            1.0 * (cells.known & (self.sizes() > constants.ROUNDING)), np.ones((others, 1))
        )[:, 0]

    def _step(self, residual: np.ndarray, weights: np.ndarray, rows: bool) -> None:
        """Add what weighted least squares find in the residual."""
        if rows:
            changed, own, design = self.left, self._of_rows, self._row_design
            sums = self.cells.row_sums
        else:
            changed, own, design = self.right, self._of_columns, self._column_design
            sums = self.cells.column_sums
        if not design.shape[1]:
            return
        gram = _regular(_grams(sums, weights, design))
        shift = sums(weights * residual, design)
        changed[:, own] += np.linalg.solve(gram, shift[..., None])[..., 0]

    def _gauss_newton(self, residual: np.ndarray, weights: np.ndarray) -> None:
        """Change rows and columns together; in turn, they converge slowly if much is missing."""
        self._balance()
        rows, columns = self.common_step(residual, weights)
        self.left[:, self._of_rows] += rows
        self.right[:, self._of_columns] += columns

    def common_step(self, residual: np.ndarray, weights: np.ndarray) -> list[np.ndarray]:
        """Changes of rows and columns by linearised least squares, up to a small part.

        Conjugate gradients; each side alone is the preconditioner.
        """
        sums = self.cells.row_sums, self.cells.column_sums
        designs = self._row_design, self._column_design
        grams = [
            _grams(total, weights, design) for total, design in zip(sums, designs, strict=True)
        ]
        damping = [constants.DAMPING * np.trace(gram, axis1=1, axis2=2)[:, None] for gram in grams]
        inverses = [np.linalg.inv(_regular(gram, constants.DAMPING)) for gram in grams]

        def gradient(at: np.ndarray) -> list[np.ndarray]:
            return [
                total(weights * at, design) for total, design in zip(sums, designs, strict=True)
            ]

        def product(step: list[np.ndarray]) -> list[np.ndarray]:
            moved = self.cells.products(step[0], designs[0])
            image = gradient(moved + self.cells.products(designs[1], step[1]))
            return [a + d * b for a, b, d in zip(image, step, damping, strict=True)]

        def dot(one: list[np.ndarray], other: list[np.ndarray]) -> float:
            return sum(float(np.vdot(a, b)) for a, b in zip(one, other, strict=True))

        def alone(at: list[np.ndarray]) -> list[np.ndarray]:
            return [
                np.einsum("kij,kj->ki", inverse, a) for inverse, a in zip(inverses, at, strict=True)
            ]

        rest = gradient(residual)
        solution = [np.zeros_like(each) for each in rest]
        direction = improved = alone(rest)
        size = first = dot(rest, improved)
        for _ in range(constants.STEPS):
            if size <= constants.SMALL_GRADIENT**2 * first or size <= 0:
                break
            image = product(direction)
            curvature = dot(direction, image)
            if curvature <= 0:
                break
            length = size / curvature
            solution = [a + length * b for a, b in zip(solution, direction, strict=True)]
            rest = [a - length * b for a, b in zip(rest, image, strict=True)]
            improved = alone(rest)
            size, before = dot(rest, improved), size
            direction = [a + size / before * b for a, b in zip(improved, direction, strict=True)]
        return solution

    def _balance(self) -> None:
        """Orthonormal scores: the next normal equations are as well conditioned as can be."""
        if self.rank:
            basis, triangle = np.linalg.qr(self.left[:, : self.rank])
            size = np.sqrt(len(self.left))
            self.left[:, : self.rank] = basis * size
            self.right[:, : self.rank] = self.right[:, : self.rank] @ triangle.T / size


def _grams(sums: Any, weights: np.ndarray, design: np.ndarray) -> np.ndarray:
    """Matrices of the normal equations of all rows, or of all columns."""
    return unpacked(sums(weights, moments(design)), design.shape[1])


def _regular(grams: np.ndarray, part: float = constants.COLLAPSED) -> np.ndarray:
    """The same with so little more that all of them have inverses."""
    traces = np.trace(grams, axis1=1, axis2=2)
    ridge = np.where(traces > 0, part * traces, 1.0)
    return grams + ridge[:, None, None] * np.eye(grams.shape[-1])
