"""Runs under local alignment: asymmetric matrices and tensors, 20 runs a theorem.

The balls of these theorems are tiny. What is checked is that every start at their edge keeps the
promised rate, damping and progress as long as errors are above the level of rounding, and that
the balls themselves are well above it.
"""

import pytest

import lemmax as lm

from .cases.theory import (
    MAPS,
    QUADRATIC,
    SHARP,
    TENSORS,
    measured_strong_alignment,
    over_trajectories,
)


@pytest.mark.parametrize("loss", [SHARP, QUADRATIC], ids=["sharp", "quadratic"])
def test_local_weak_alignment(loss):
    """Theorems 4.7 and B.13, for asymmetric factorisation.

    Their balls are so small that the quadratic case leaves the level of rounding only for a
    matrix of rank 1 without redundant columns; even there, errors have five digits.
    """
    map = lm.maps.LowRank((4, 3), 1) if loss.quadratic else MAPS["LowRank"]
    found = over_trajectories(
        map, loss, "polyak", 150, redundant=0 if loss.quadratic else 1, lowest=0.7
    )
    assert found.theorem == ("Theorem B.13" if loss.quadratic else "Theorem 4.7")
    assert found.worst <= 1 + 1e-5
    assert found.final < 1


@pytest.mark.parametrize(
    ("name", "loss"),
    [
        pytest.param("SymmetricCP", SHARP, id="SymmetricCP-sharp"),
        pytest.param("CP", SHARP, id="CP-sharp", marks=pytest.mark.slow),
        pytest.param("SymmetricCP", QUADRATIC, id="SymmetricCP-quadratic", marks=pytest.mark.slow),
        pytest.param("CP", QUADRATIC, id="CP-quadratic", marks=pytest.mark.slow),
    ],
)
def test_local_strong_alignment(name, loss):
    """Theorems B.12 (Corollaries 5.18 and 5.19) and B.14 for tensors, their constant C measured."""
    found = over_trajectories(
        TENSORS[name],
        loss,
        "polyak",
        150,
        align=measured_strong_alignment,
        redundant=0,
        lowest=0.5,
    )
    corollary = {"SymmetricCP": "Corollary 5.18", "CP": "Corollary 5.19"}[name]
    assert found.theorem == ("Theorem B.14" if loss.quadratic else f"Theorem B.12, {corollary}")
    assert found.smallest_radius > 1e-9
    assert found.worst < 1
