"""The rivals: their updates, their scopes, and how far they get where."""

import re
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

import lemmax as lm
from lemmax.covectors import DenseCovector
from lemmax.experiments.instances import low_rank_sensing, psd_factorisation, psd_sensing

METHODS = lm.methods


def errors(instance, method, max_steps=450):
    result = lm.solve(
        instance.problem,
        method,
        instance.x0,
        tol=0,
        max_steps=max_steps,
        metrics={"error": instance.error},
    )
    return np.asarray(result.trace.metrics["error"]), result


def steps_to(error, accuracy=1e-10):
    hits = np.flatnonzero(error <= accuracy)
    return int(hits[0]) if hits.size else None


def normal(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape))


FUNCTION = lm.maps.FromFunction(lambda x: {"out": jnp.sin(x[0])[:, None] * x[1][None, :]})
BLOCK_CASES = {
    "LowRank": (lm.maps.LowRank((5, 4), 3), (normal(0, 5, 3), normal(1, 4, 3)), normal(2, 5, 4)),
    "CP": (
        lm.maps.CP((4, 3, 5), 2),
        (normal(0, 4, 2), normal(1, 3, 2), normal(2, 5, 2)),
        normal(3, 4, 3, 5),
    ),
    "FromFunction": (FUNCTION, (normal(0, 4), normal(1, 5)), {"out": normal(2, 4, 5)}),
}


@pytest.mark.parametrize("name", BLOCK_CASES)
def test_block_direction_is_the_dense_solve_in_every_block(name):
    map_, x, v = BLOCK_CASES[name]
    # Compiled as a whole: one by one, their operations would be dozens of programs.
    found = jax.jit(lambda x: map_.block_direction(x, 0.3, DenseCovector(v)))(x)
    jacobians = jax.jit(jax.jacfwd(lambda x: ravel_pytree(map_(x).dense())[0]))(x)
    for k, leaf in enumerate(x):
        jacobian = np.asarray(jacobians[k]).reshape(-1, leaf.size)
        right = jacobian.T @ np.asarray(ravel_pytree(v)[0])
        wanted = np.linalg.solve(jacobian.T @ jacobian + 0.3 * np.eye(leaf.size), right)
        np.testing.assert_allclose(np.ravel(found[k]), wanted, atol=1e-13)


def test_block_direction_of_symmetric_maps_drops_the_coupling():
    x, v = np.asarray(normal(0, 5, 3)), np.asarray(normal(1, 5, 5))
    found = lm.maps.PSD(5, 3).block_direction(jnp.asarray(x), 0.3, DenseCovector(jnp.asarray(v)))
    wanted = (v + v.T) @ x @ np.linalg.inv(2 * x.T @ x + 0.3 * np.eye(3))
    np.testing.assert_allclose(found, wanted, atol=1e-13)
    v = np.asarray(normal(1, 5, 5, 5))
    found = lm.maps.SymmetricCP(5, 3).block_direction(
        jnp.asarray(x), 0.3, DenseCovector(jnp.asarray(v))
    )
    gradient = sum(
        np.einsum(f"abc,{rest[0]}z,{rest[1]}z->{one}z", v, x, x)
        for one, rest in (("a", "bc"), ("b", "ac"), ("c", "ab"))
    )
    wanted = gradient @ np.linalg.inv(3 * (x.T @ x) ** 2 + 0.3 * np.eye(3))
    np.testing.assert_allclose(found, wanted, atol=1e-13)


def test_scaled_updates_as_their_papers_print_them():
    """One step of each on an asymmetric problem, written out with inverses."""
    instance = low_rank_sensing(3, shape=(6, 5), rank=2, measurements=60)
    x, y = instance.x0
    array = np.asarray(instance.problem.operator.matrix).reshape(60, 6, 5)
    residual = np.einsum("mij,ij->m", array, x @ y.T) - np.asarray(instance.problem.data)
    z = np.einsum("m,mij->ij", residual, array)
    v = np.einsum("m,mij->ij", np.sign(residual), array)
    smooth = lm.Composite(
        lm.losses.SquaredL2(),
        instance.problem.map,
        instance.problem.data,
        instance.problem.operator,
    )
    inv, eye = np.linalg.inv, np.eye(2)

    def one(problem, method):
        return lm.solve(problem, method, (x, y), tol=0, max_steps=1).last_x

    def check(found, dx, dy):
        np.testing.assert_allclose(found[0], x - dx, atol=1e-10)
        np.testing.assert_allclose(found[1], y - dy, atol=1e-10)

    check(
        one(smooth, METHODS.scaled_gd()), 0.5 * z @ y @ inv(y.T @ y), 0.5 * z.T @ x @ inv(x.T @ x)
    )
    level = 2.5e-3 * np.sqrt(0.5 * residual @ residual)
    check(
        one(smooth, METHODS.prec_gd_asymmetric()),
        0.5 * z @ y @ inv(y.T @ y + level * eye),
        0.5 * z.T @ x @ inv(x.T @ x + level * eye),
    )
    dx, dy = v @ y @ inv(y.T @ y), v.T @ x @ inv(x.T @ x)
    length = np.abs(residual).sum() / (np.sum(v @ y * dx) + np.sum(v.T @ x * dy))
    check(one(instance.problem, METHODS.scaled_subgradient()), length * dx, length * dy)
    dx, dy = v @ y @ inv(y.T @ y + 2 * eye), v.T @ x @ inv(x.T @ x + 2 * eye)
    length = np.abs(residual).sum() / (np.sum(v @ y * dx) + np.sum(v.T @ x * dy))
    check(one(instance.problem, METHODS.opsa(2.0)), length * dx, length * dy)
    # Alternating: the second half step sees the first.
    new_x = x - 0.5 * z @ y @ inv(y.T @ y)
    again = np.einsum("mij,ij->m", array, new_x @ y.T) - np.asarray(instance.problem.data)
    z_again = np.einsum("m,mij->ij", again, array)
    check(one(smooth, METHODS.apgd()), x - new_x, 0.5 * z_again.T @ new_x @ inv(new_x.T @ new_x))


def test_rebalancing_changes_the_factors_and_not_the_matrix():
    instance = low_rank_sensing(3, shape=(6, 5), rank=2, measurements=60)
    plain = lm.solve(instance.problem, METHODS.opsa(), instance.x0, tol=0, max_steps=1).last_x
    balanced = lm.solve(
        instance.problem, METHODS.rebalanced(METHODS.opsa()), instance.x0, tol=0, max_steps=1
    ).last_x
    np.testing.assert_allclose(balanced[0] @ balanced[1].T, plain[0] @ plain[1].T, atol=1e-13)
    np.testing.assert_allclose(balanced[0].T @ balanced[0], balanced[1].T @ balanced[1], atol=1e-13)


def test_prox_linear_converges_quadratically_in_few_passes():
    for outliers, measurements in ((0.0, 160), (0.1, 320)):
        instance = psd_sensing(
            0, dim=40, rank=2, measurements=measurements, condition=100.0, outliers=outliers
        )
        error, result = errors(instance, METHODS.prox_linear(), max_steps=8)
        assert np.min(error) < 1e-12
        quick = error[error > 1e-12]
        # The error squares, up to a constant, once it is small.
        assert np.all(quick[1:] <= 100 * quick[:-1] ** 2 + 1e-12) or quick[-1] < 1e-6
        assert np.all(result.trace.passes[:-1] == 3)


@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_prox_linear_stops_without_a_target_and_asks_little_of_its_inner_solver(outliers):
    """Not a step after the model promises nothing; far fewer inner iterations than allowed."""
    for rank, measurements, most_steps in ((2, 150, 8), (4, 250, 40)):
        instance = psd_sensing(
            0, dim=12, rank=rank, measurements=measurements, condition=100.0, outliers=outliers
        )
        result = lm.solve(
            instance.problem,
            METHODS.prox_linear(),
            instance.x0,
            max_steps=100,
            metrics={"error": instance.error},
        )
        assert result.status is lm.Status.CONVERGED
        assert int(result.steps) <= most_steps
        assert result.trace.metrics["error"][-1] < 1e-11
        assert np.max(result.trace.iterations) < 300


def test_prox_linear_says_what_does_not_fit():
    data = np.zeros((3000, 3000))
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(3000, 5), data)
    with pytest.raises(MemoryError, match=r"\(9000000, 15000\) needs .* GiB.* Use lmm"):
        lm.solve(problem, METHODS.prox_linear(), np.ones((3000, 5)))


def test_prox_linear_takes_factored_data():
    instance = psd_factorisation(0, dim=10, rank=3)
    error, _ = errors(instance, METHODS.prox_linear(), max_steps=20)
    assert error[-1] < 1e-10


def test_prox_linear_step_is_the_minimiser_of_the_linearised_loss():
    """Against a linear program, solved by SciPy."""
    scipy_optimize = pytest.importorskip("scipy.optimize")
    from lemmax.methods._prox_linear import linearised_step

    rng = np.random.default_rng(0)
    matrix, residual = rng.standard_normal((30, 6)), rng.standard_normal(30)
    found, _ = linearised_step(
        lm.losses.L1(),
        jnp.asarray(matrix),
        jnp.asarray(residual),
        (30,),
        0.0,
        lambda change: jnp.asarray(1e-9),
        20000,
    )
    # min sum t  subject to  -t <= residual + matrix D <= t
    wall = np.block([[matrix, -np.eye(30)], [-matrix, -np.eye(30)]])
    best = scipy_optimize.linprog(
        np.r_[np.zeros(6), np.ones(30)], wall, np.r_[-residual, residual], bounds=(None, None)
    )
    assert np.abs(residual + matrix @ np.asarray(found)).sum() <= best.fun * (1 + 1e-6)


def test_super_polyak_is_superlinear_at_the_exact_rank():
    instance = psd_sensing(0, dim=20, rank=2, measurements=160, condition=100.0)
    error, result = errors(instance, METHODS.super_polyak(), max_steps=6)
    assert np.min(error) < 1e-12
    # Its bundles are paid for in passes over the measurements.
    assert np.sum(result.trace.passes) > 100
    plain, _ = errors(instance, METHODS.polyak_subgradient(), max_steps=100)
    assert np.min(plain) > 1e-6


def test_super_polyak_falls_back_to_polyak_steps():
    """A bundle of one is no better than Polyak's step, which then goes on alone."""
    instance = psd_sensing(0, dim=10, rank=2, measurements=80)
    error, result = errors(instance, METHODS.super_polyak(bundle_size=1), max_steps=300)
    assert np.min(error) < 1e-8
    assert np.sum(result.trace.step[:-1] > 0) > 100


def test_unknown_minimum_is_found_by_restarts():
    instance = psd_sensing(2, dim=12, rank=2, measurements=200, outliers=0.1)
    method = METHODS.restarted(METHODS.gauss_newton())
    error, _ = errors(instance, method, max_steps=800)
    stuck, _ = errors(instance, METHODS.gauss_newton(), max_steps=800)
    assert np.min(error) < 1e-8
    assert np.min(stuck) > 1e-4


@pytest.mark.parametrize("stage_steps", [2, 7, 50])
def test_the_end_of_a_stage_does_not_pass_for_convergence(stage_steps):
    """The value is that of the best point there, so going back to it would be standing still."""
    instance = low_rank_sensing(0, shape=(8, 7), rank=3, measurements=120, condition=10.0)
    method = METHODS.restarted(METHODS.gauss_newton(), stage_steps=stage_steps)
    result = lm.solve(instance.problem, method, instance.x0, max_steps=2000, tol=1e-12)
    assert result.status is lm.Status.CONVERGED
    assert result.value <= 1e-12 * result.trace.value[0]
    assert np.all(result.trace.movement[:-1] > 0)


def test_a_restart_pays_for_looking_at_the_best_point_again():
    instance = psd_sensing(2, dim=12, rank=2, measurements=200, outliers=0.1)
    method = METHODS.restarted(METHODS.gauss_newton(), stage_steps=10)
    result = lm.solve(instance.problem, method, instance.x0, max_steps=60, tol=0)
    passes = np.asarray(result.trace.passes)
    # Every stage fails at first, for the bound 0 is far too low; so every tenth step goes back.
    np.testing.assert_array_equal(np.flatnonzero(passes == 4), np.arange(10, 60, 10))
    assert set(passes) == {2, 4}


def test_geometric_lengths_are_normalised():
    instance = low_rank_sensing(
        2, shape=(20, 20), rank=2, measurements=800, condition=20.0, outliers=0.1
    )
    method = METHODS.scaled_subgradient(lm.steps.NormalisedGeometric(0.05, 0.93))
    assert np.min(errors(instance, method)[0]) < 1e-10


SMOOTH, SHARP = lm.losses.SquaredL2(), lm.losses.L1()
PROBLEMS = {
    "PSD": lambda loss: lm.Composite(loss, lm.maps.PSD(3, 2), np.eye(3)),
    "LowRank": lambda loss: lm.Composite(loss, lm.maps.LowRank((3, 2), 1), np.ones((3, 2))),
    "Function": lambda loss: lm.Composite(loss, lm.maps.FromFunction(jnp.sin), np.ones(2)),
}
SCOPES = {
    ("prec_gd", "PSD", SHARP): "PrecGD needs a smooth loss such as SquaredL2, but this problem's "
    "loss is L1. Use scaled_subgradient or lmm.",
    ("prec_gd_asymmetric", "LowRank", SHARP): "scaled_subgradient, opsa or lmm.",
    ("scaled_gd_damped", "PSD", SHARP): "Use scaled_subgradient or lmm.",
    ("scaled_gd", "Function", SMOOTH): "this problem's map is FromFunction. Use lmm.",
    ("apgd", "PSD", SMOOTH): "scaled_gd, scaled_gd_damped, prec_gd, scaled_subgradient or lmm.",
    ("super_polyak", "Function", SMOOTH): "SuperPolyak needs a sharp loss such as L1",
}


@pytest.mark.parametrize(("name", "kind", "loss"), SCOPES)
def test_outside_its_scope_a_method_says_what_would_work(name, kind, loss):
    problem = PROBLEMS[kind](loss)
    with pytest.raises(ValueError, match=re.escape(SCOPES[name, kind, loss])) as caught:
        getattr(METHODS, name)().scope.check(problem)
    advice = str(caught.value).rpartition(" Use ")[2].strip(".").replace(" or ", ", ")
    for better in advice.split(", "):
        getattr(METHODS, better)().scope.check(problem)


def test_wrappers_are_refused_under_their_own_name():
    problem = PROBLEMS["PSD"](SHARP)
    with pytest.raises(ValueError, match=r"rebalanced\(OPSA\) needs a map of type LowRank"):
        METHODS.rebalanced(METHODS.opsa()).scope.check(problem)
    with pytest.raises(ValueError, match=r"restarted\(OPSA\) needs a map of type LowRank"):
        METHODS.restarted(METHODS.opsa()).scope.check(problem)
    with pytest.raises(ValueError, match="works on LowRank; PrecGD does not"):
        METHODS.rebalanced(METHODS.prec_gd())


WRONG_NUMBERS = """
import lemmax as lm
import numpy as np

M = lm.methods

def sentence(name, make, *values):
    for value in values:
        try:
            make(value)
        except (ValueError, TypeError) as error:
            assert str(error).startswith(name + " must be "), (name, value, str(error))
        else:
            raise AssertionError((name, value))

nonsense = ("x", None, float("nan"), float("inf"), [0.5, 0.5], True)
for make in (M.apgd, M.approximate_gauss_newton, M.scaled_gd):
    sentence("size", make, 0, -1, *nonsense)
for make in (M.prec_gd, M.prec_gd_asymmetric, M.scaled_gd_damped):
    sentence("size", lambda size: make(size=size), 0, -1, *nonsense)
sentence("damping", M.opsa, -1, *nonsense)
sentence("damping", M.scaled_gd_damped, -1, *nonsense)
sentence("factor", M.prec_gd, -1, *nonsense)
sentence("bundle_size", lambda n: M.super_polyak(bundle_size=n), 0, -1, 1.5, "a", None, True)
sentence("target", M.super_polyak, *nonsense)
sentence("target", M.prox_linear, "a", float("nan"), float("inf"), [0.0])
sentence("target", lambda t: M.apgd(target=t), "a", float("nan"))
gn = M.gauss_newton()
sentence("stage_steps", lambda n: M.restarted(gn, stage_steps=n), 1, 0, -1, 2.5, "a", None)
sentence("lower_bound", lambda b: M.restarted(gn, b), *nonsense)
geometric = M.gauss_newton(lm.steps.Geometric(0.1, 0.9))
sentence("method", M.restarted, 3, M.prox_linear(), M.restarted(gn), M.lmm, geometric)
sentence("method", M.rebalanced, 3, M.lmm, "lmm")
M.super_polyak(bundle_size=10**9)
M.prox_linear(target=None)
M.scaled_gd(size=np.float32(0.5))
"""


def test_numbers_that_cannot_be_right_are_refused_by_the_name_of_their_argument():
    """In a process of its own, since under pytest the type annotations are checked first."""
    done = subprocess.run([sys.executable, "-c", WRONG_NUMBERS], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
