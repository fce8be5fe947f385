"""What several files of tests need."""

import numpy as np
import pytest

from lemmax.estimators import RobustPCA
from tests.tables import spoiled_table


@pytest.fixture(scope="session")
def cleaned():
    """A table as it should be, as it is, and the model that was fitted to it."""
    truth, table = spoiled_table(np.random.default_rng(0))
    return truth, table, RobustPCA(rank=5).fit(table)
