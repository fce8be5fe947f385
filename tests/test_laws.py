"""Every operator, loss and map obeys its laws, and the checks notice when one does not."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from lemmax import testing
from lemmax.covectors import DenseCovector
from lemmax.losses import L1, L2, AbstractLoss, Huber, SquaredL2
from lemmax.maps import PSD, Square
from lemmax.operators import Dense, Identity
from lemmax.points import DensePoint, KruskalPoint

from .cases.losses import LOSSES, SIZE, WEIGHTS
from .cases.maps import MAPS
from .cases.operators import OPERATORS


@pytest.mark.parametrize("case", OPERATORS, ids=lambda case: case.name)
def test_operator_laws(case):
    testing.check_operator(case.operator, case.point, key=1)


@pytest.mark.parametrize("case", LOSSES, ids=lambda case: case.name)
def test_loss_laws(case):
    testing.check_loss(case.loss, SIZE, key=jax.random.key(2))


@pytest.mark.parametrize("case", MAPS, ids=lambda case: case.name)
def test_map_laws(case):
    testing.check_map(
        case.map, case.x, key=3, covector=case.covector, formula=case.formula, rtol=case.rtol
    )


@pytest.mark.parametrize(
    "covector",
    [case.covector for case in MAPS if case.name.endswith(("tucker", "symmetric"))],
    ids=[case.name for case in MAPS if case.name.endswith(("tucker", "symmetric"))],
)
def test_covector_laws(covector):
    testing.check_covector(covector, key=4)


def test_factored_points_are_their_dense_form():
    rng, dims = np.random.default_rng(5), (2, 3, 4)
    a, b = (
        KruskalPoint(tuple(jnp.asarray(rng.standard_normal((d, rank))) for d in dims))
        for rank in (2, 3)
    )
    dense_a, dense_b = (np.asarray(point.dense()) for point in (a, b))
    indices = tuple(rng.integers(d, size=6) for d in dims)

    @jax.jit
    def measure(a, b):
        return a.norm(), a.inner(b), a.distance(b), a.entries(*indices)

    for first, second in ((a, b), (a, DensePoint(b.dense())), (DensePoint(a.dense()), b)):
        norm, inner, distance, entries = measure(first, second)
        np.testing.assert_allclose(norm, np.linalg.norm(dense_a), rtol=1e-12)
        np.testing.assert_allclose(inner, np.sum(dense_a * dense_b), rtol=1e-12)
        np.testing.assert_allclose(distance, np.linalg.norm(dense_a - dense_b), rtol=1e-12)
        np.testing.assert_allclose(entries, dense_a[indices], rtol=1e-12)


def test_factored_data_are_seen_through_an_isometry():
    rng = np.random.default_rng(6)
    point, data = (
        KruskalPoint(tuple(jnp.asarray(rng.standard_normal((d, 1))) for d in (4, 3, 5)))
        for _ in range(2)
    )
    residual, adjoint = Identity().residual(point, data)
    difference = np.asarray(point.dense() - data.dense())
    assert np.linalg.norm(residual) == pytest.approx(np.linalg.norm(difference))
    s = jnp.asarray(rng.standard_normal(residual.shape))
    covector = adjoint(s)
    assert np.linalg.norm(covector.dense()) == pytest.approx(np.linalg.norm(s))
    product = np.sum(np.asarray(covector.dense()) * difference)
    assert product == pytest.approx(float(jnp.sum(s * residual)))


# Controls: every check must notice a fault that looks harmless.


class AdjointOfTheTranspose(Dense):
    def adjoint(self, observations):
        value = super().adjoint(observations).dense()
        return DenseCovector(value.T)


class AdjointOfOneRow(Dense):
    def adjoint(self, observations):
        return DenseCovector(super().adjoint(observations).dense()[0])


class MeasuresFactoredPointsTwice(Dense):
    def measure(self, point):
        return super().measure(point) * (2 if isinstance(point, KruskalPoint) else 1)


class AffineMeasurement(Dense):
    def measure(self, point):
        return super().measure(point) + 1


class CallsItselfSymmetric(Dense):
    def adjoint(self, observations):
        return DenseCovector(super().adjoint(observations).dense(), symmetric=True)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (AdjointOfTheTranspose, "<adjoint"),
        (AdjointOfOneRow, r"adjoint returns shapes \(3,\) instead of \(3, 3\)"),
        (MeasuresFactoredPointsTwice, "measure of a dense point"),
        (AffineMeasurement, "-2 times a point"),
        (CallsItselfSymmetric, "contract_all_but_one|symmetric"),
    ],
)
def test_check_operator_notices(kind, message):
    rng = np.random.default_rng(7)
    point = KruskalPoint(tuple(jnp.asarray(rng.standard_normal((3, 2))) for _ in range(2)))
    with pytest.raises(AssertionError, match=message):
        testing.check_operator(kind(rng.standard_normal((4, 3, 3))), point, key=1)


class HalfTheSlope(L1):
    def subgradient(self, residual):
        return super().subgradient(residual) / 2


class IgnoresItsWeights(L1):
    def value(self, residual):
        return jnp.sum(jnp.abs(residual))


class PicksASideAtZero(L1):
    def subgradient(self, residual):
        return jnp.where(residual >= 0, 1.0, -1.0)


class ConvexButWrongSlope(SquaredL2):
    def subgradient(self, residual):
        return residual * (1 + 1e-6)


class ShrinksTooMuch(L1):
    def prox(self, residual, step):
        return super().prox(residual, 1.01 * step)


class ForgetsTheWeights(Huber):
    def prox(self, residual, step):
        return Huber(self.threshold).prox(residual, step)


class ClaimsTooSharp(L1):
    def constants(self, size):
        return super().constants(size)._replace(sharpness=jnp.asarray(1.01))


class ClaimsTooFlat(L1):
    def constants(self, size):
        return super().constants(size)._replace(lipschitz=jnp.asarray(0.99 * size**0.5))


class ClaimsGrowth(Huber):
    def constants(self, size):
        return super().constants(size)._replace(growth=jnp.asarray(0.1))


class ClaimsTooSmooth(SquaredL2):
    def constants(self, size):
        return super().constants(size)._replace(smoothness=jnp.asarray(0.99))


class NotZeroAtZero(L2):
    def value(self, residual):
        return jnp.sqrt(super().value(residual) ** 2 + 1e-6)


@pytest.mark.parametrize(
    ("loss", "message"),
    [
        (IgnoresItsWeights(), "weights are not applied"),
        (HalfTheSlope(), "not a subgradient"),
        (PicksASideAtZero(), "fixed point"),
        (ConvexButWrongSlope(), "subgradient"),
        (ShrinksTooMuch(), "prox"),
        (ForgetsTheWeights(0.7, weights=WEIGHTS), "prox"),
        (ClaimsTooSharp(), "sharpness"),
        (ClaimsTooFlat(), "lipschitz"),
        (ClaimsGrowth(0.7), "growth"),
        (ClaimsTooSmooth(), "smoothness"),
        (NotZeroAtZero(), "at residual 0"),
    ],
    ids=lambda part: type(part).__name__ if isinstance(part, AbstractLoss) else "",
)
def test_check_loss_notices(loss, message):
    with pytest.raises(AssertionError, match=message):
        testing.check_loss(loss, SIZE, key=2)


class WrongPoint(Square):
    def __call__(self, x):
        return DensePoint(x * x + 1e-6)


class WrongJvp(Square):
    def jvp(self, x, dx):
        return 2 * x * dx * (1 + 1e-6)


class WrongVjp(Square):
    def vjp(self, x, covector):
        return x * covector.dense()


class WrongGram(Square):
    def gram(self, x, dx):
        return 4 * x * dx


class WrongSolve(Square):
    def solve(self, x, damping, g):
        return super().solve(x, 2 * damping, g)


class WrongDirection(Square):
    def direction(self, x, damping, covector):
        return super().direction(x, 2 * damping, covector)


class WrongDamping(Square):
    def precondition(self, x, damping, covector):
        return super().precondition(x, damping + 1e-4, covector)


class WrongRange(Square):
    def precondition(self, x, damping, covector):
        answer = super().precondition(x, damping, covector)
        size = jnp.sum(covector.dense() ** 2)  # forgets that J is singular
        return answer._replace(projections=answer.projections._replace(range=size))


class DividesByZero(Square):
    def precondition(self, x, damping, covector):
        answer = super().precondition(x, damping, covector)
        size = jnp.sqrt(answer.projections.damped)
        return answer._replace(direction=answer.direction / size * size)


class ReportsFailure(Square):
    def precondition(self, x, damping, covector):
        return super().precondition(x, damping, covector)._replace(failed=jnp.asarray(True))


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        (WrongPoint, "the point"),
        (WrongJvp, "jvp"),
        (WrongVjp, "vjp"),
        (WrongGram, "gram"),
        (WrongSolve, "solve"),
        (WrongDirection, "direction at"),
        (WrongDamping, "precondition at"),
        (WrongRange, "range"),
        (DividesByZero, "turns zero into"),
        (ReportsFailure, "failure"),
    ],
)
def test_check_map_notices(kind, message):
    x = jnp.array([1.5, 0.0, -0.3])
    with pytest.raises(AssertionError, match=message):
        testing.check_map(kind(3), x, key=1, formula=_squares)


def _squares(x):
    return x**2


class UsesHalfOfTheCovector(PSD):
    def vjp(self, x, covector):
        return 2 * covector.contract((x, x), 0)


def test_check_map_tries_a_covector_that_is_not_symmetric():
    x = jnp.array([[1.0], [2.0]])
    with pytest.raises(AssertionError, match="vjp"):
        testing.check_map(UsesHalfOfTheCovector(2, 1), x, key=1)
