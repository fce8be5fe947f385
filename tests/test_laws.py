import jax
import pytest

from lemmax import testing

from .cases.losses import LOSSES, SIZE
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
