"""Estimators through any order of fit, save, load, clone and set_params: as if made at once."""

import pathlib
import tempfile
import warnings

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from lemmax.estimators import RobustPCA

RNG = np.random.default_rng(0)
TABLES = []
for rows, columns in ((9, 4), (12, 5)):
    table = RNG.standard_normal((rows, 1)) @ RNG.standard_normal((1, columns)) + 2
    table[1, 1], table[3, 2] = np.nan, 70.0
    TABLES.append(table)


class States(RuleBasedStateMachine):
    """One model, and what it should be: its parameters, and the table that it was fitted to."""

    def __init__(self):
        super().__init__()
        self.model, self.fitted = RobustPCA(1), None
        self.params = self.model.get_params()

    @rule(which=st.sampled_from([0, 1]))
    def fit(self, which):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert self.model.fit(TABLES[which]) is self.model
        self.fitted = which, dict(self.params)

    @rule(value=st.sampled_from(["robust", "squared"]))
    def set_params(self, value):
        self.model.set_params(loss=value)
        self.params["loss"] = value

    @rule()
    def cloned(self):
        self.model, self.fitted = clone(self.model), None

    @rule()
    def saved_and_loaded(self):
        with tempfile.TemporaryDirectory() as folder:
            path = pathlib.Path(folder) / "m.safetensors"
            try:
                self.model.save(path)
            except NotFittedError:
                assert self.fitted is None
                assert not list(pathlib.Path(folder).iterdir())
                return
            self.model = RobustPCA.load(path)
        assert self.fitted is not None

    @precondition(lambda self: self.fitted is not None)
    @rule()
    def as_if_made_at_once(self):
        which, params = self.fitted
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fresh = RobustPCA(**params).fit(TABLES[which])
        np.testing.assert_array_equal(self.model.cleaned_, fresh.cleaned_)
        np.testing.assert_array_equal(
            self.model.transform(TABLES[which]), fresh.transform(TABLES[which])
        )

    @precondition(lambda self: self.fitted is not None)
    @rule(count=st.integers(1, 4), hole=st.integers(0, 3))
    def partial_inputs(self, count, hole):
        """Some rows with holes are transformed one by one; other widths are refused."""
        rows = TABLES[self.fitted[0]][:count].copy()
        rows[0, hole] = np.nan
        together = self.model.transform(rows)
        alone = np.concatenate([self.model.transform(row[None]) for row in rows])
        np.testing.assert_allclose(together, alone, rtol=1e-9, atol=1e-9)
        with pytest.raises(ValueError, match=r"features|columns"):
            self.model.transform(rows[:, 1:])

    @rule()
    def a_fit_that_is_refused_changes_nothing(self):
        before = {name: id(value) for name, value in vars(self.model).items()}
        with pytest.raises(ValueError, match="infin"):
            self.model.fit(np.full((5, 4), np.inf))
        assert {name: id(value) for name, value in vars(self.model).items()} == before

    @invariant()
    def parameters_are_those_that_were_set(self):
        assert self.model.get_params() == self.params
        assert hasattr(self.model, "cleaned_") == (self.fitted is not None)


TestStates = States.TestCase
TestStates.settings = settings(max_examples=6, stateful_step_count=8, deadline=None)
