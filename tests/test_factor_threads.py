"""Threads of the factor model: none in BLAS, its own for large tables."""

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from lemmax.factor import _constants, fit_table
from lemmax.factor._cells import DenseCells


def threads():
    return {pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"}


def test_blas_has_one_thread_during_a_fit_and_its_own_afterwards():
    rng = np.random.default_rng(0)
    table = np.outer(np.arange(20.0), np.arange(1.0, 7.0)) + rng.standard_normal((20, 6))
    seen = []
    with threadpool_limits(2, user_api="blas"):
        fit_table(table, callback=lambda *_: seen.append(threads()))
        assert threads() == {2}
    assert seen
    assert all(each == {1} for each in seen)


@pytest.mark.parametrize("count", [1, 3, 50])
def test_sums_in_blocks_are_matrix_products(monkeypatch, count):
    """Also with fewer rows than blocks."""
    monkeypatch.setattr(_constants, "WORTHWHILE", 0)
    monkeypatch.setattr(_constants, "PIECE", 16)
    rng = np.random.default_rng(count)
    weights = rng.random((count, 8))
    cells = DenseCells(weights)
    left, right = rng.standard_normal((count, 3)), rng.standard_normal((8, 3))
    np.testing.assert_allclose(cells.row_sums(weights, right), weights @ right, rtol=1e-13)
    np.testing.assert_allclose(cells.column_sums(weights, left), weights.T @ left, rtol=1e-12)
    out = np.zeros((count, 8))

    def work(piece):
        out[piece] += cells.products(left, right, piece)

    cells.in_pieces(work)
    np.testing.assert_allclose(out, left @ right.T, rtol=1e-12, atol=1e-14)
