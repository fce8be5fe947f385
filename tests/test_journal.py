"""Searches that were killed go on as if they had not been: `recover`, `fit`, estimators, sweeps."""

import dataclasses
import json

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import sparse

import lemmax as lm
from lemmax import _journal
from lemmax._journal import begun, journal
from lemmax.estimators import CPDecomposition, MatrixCompletion, RobustPCA
from lemmax.fit import _constants as constants
from tests.commands import refusal_of, run

RNG = np.random.default_rng(0)
TABLE = RNG.standard_normal((40, 2)) @ RNG.standard_normal((2, 12))
TABLE += 0.1 * RNG.standard_normal(TABLE.shape)
TABLE[RNG.random(TABLE.shape) < 0.1] = 9.0
TABLE[RNG.random(TABLE.shape) < 0.1] = np.nan
LIST = tuple(each[:90] for each in (*np.nonzero(~np.isnan(TABLE)), TABLE[~np.isnan(TABLE)]))
TENSOR = np.einsum("ir,jr,kr->ijk", *(RNG.standard_normal((d, 2)) for d in (9, 8, 7)))
TENSOR += 0.1 * RNG.standard_normal(TENSOR.shape)
TIMES = np.linspace(0.0, 6.0, 25)
CURVE = np.sin(2.3 * TIMES) + 0.1 * RNG.standard_normal(25)
CURVE[::6] += 3.0


class Killed(BaseException):
    """As nobody catches it, it ends a search wherever it is."""


@pytest.fixture
def impatient(monkeypatch):
    """Every stage, and every state of a stage, is written at once; few curves are a stage."""
    monkeypatch.setattr(constants, "TOGETHER", 250)
    monkeypatch.setattr(_journal, "_SECONDS", 0.0)
    monkeypatch.setattr(_journal, "_SHARE", np.inf)


@pytest.fixture
def killing(monkeypatch):
    """Have a process end after so many files."""
    write = _journal.write

    def after(count):
        left = [count]

        def limited(*arguments):
            if left[0] == 0:
                raise Killed
            left[0] -= 1
            write(*arguments)

        monkeypatch.setattr(_journal, "write", limited)

    return after


def model(x):
    return jnp.sin(x["f"] * TIMES) + x["c"]


def fitted(**options):
    return lm.fit(model, CURVE, {"f": 1.0, "c": 0.0}, starts=48, **options)


def large(**options):
    start = {"f": 2.2, "c": 0.0}
    return lm.fit(model, CURVE, start, jacobian=lm.jacobians.Products(), **options)


def curves(**options):
    y = np.sin(np.linspace(2.0, 2.5, 8)[:, None] * TIMES) + CURVE - np.sin(2.3 * TIMES)
    return lm.fit_many(model, y, {"f": 2.2, "c": 0.0}, **options)


def recovered(**options):
    return lm.recover(TABLE, lm.maps.LowRank(TABLE.shape, 4), **options)


def several(**options):
    rng = np.random.default_rng(0)
    array, x = rng.standard_normal((30, 4, 4)), rng.standard_normal((4, 1))
    data = np.einsum("mij,ik,jk->m", array, x, x)
    operator = lm.operators.SymmetricDense(array)
    problem = lm.Composite(lm.losses.L1(), lm.maps.PSD(4, 2), data, operator)
    starts = rng.standard_normal((3, 4, 2))
    methods = [lm.methods.lmm(), lm.methods.lmm(), lm.methods.polyak_subgradient()]
    runs = [lm.Run(problem, *both) for both in zip(methods, starts, strict=True)]
    return lm.solve_many(runs, max_steps=60, every=7, memory=3e4, **options)


CALLS = {
    "fit": fitted,
    "fit, many parameters": large,
    "fit_many": curves,
    "recover": recovered,
    "solve_many": several,
    "RobustPCA": lambda **options: RobustPCA().fit(TABLE, **options),
    "MatrixCompletion": lambda **options: MatrixCompletion(2).fit(LIST, **options),
    "CPDecomposition": lambda **options: CPDecomposition(3, n_init=2).fit(TENSOR, **options),
}


def numbers(found):
    """All that was found, but the time it took."""
    if isinstance(found, list):
        return [numbers(each) for each in found]
    if isinstance(found, (lm.Fit, lm.ManyFits, lm.Recovery)):
        return {
            field.name: numbers(getattr(found, field.name))
            for field in dataclasses.fields(found)
            if field.name not in ("seconds", "task", "map", "information")
        }
    if hasattr(found, "get_params"):
        return {k: numbers(v) for k, v in vars(found).items() if k.endswith("_")}
    if sparse.issparse(found):
        return found.toarray().tobytes()
    if dataclasses.is_dataclass(found):
        return {k: numbers(v) for k, v in vars(found).items() if "seconds" not in k}
    leaves = jax.tree.leaves(found)
    return [leaf.tobytes() if isinstance(leaf, np.ndarray) else repr(leaf) for leaf in leaves]


@pytest.mark.parametrize("name", CALLS)
def test_killed_and_started_again(name, tmp_path, impatient, killing):
    call = CALLS[name]
    wanted = numbers(call())
    kills = 0
    for files in (1, 3, 9, 27, 10**6):
        killing(files)
        try:
            found = call(checkpoint=tmp_path / "run")
        except Killed:
            kills += 1
            continue
        break
    assert kills
    assert numbers(found) == wanted
    # Once more: nothing is left to do.
    killing(0)
    assert numbers(call(checkpoint=tmp_path / "run")) == wanted


def test_other_runs_are_refused(tmp_path, impatient):
    recovered(checkpoint=tmp_path)
    sentence = "is the checkpoint of another run: the data or options of "
    for call in (fitted, several, CALLS["RobustPCA"]):
        with pytest.raises(ValueError, match=sentence):
            call(checkpoint=tmp_path)
    with pytest.raises(ValueError, match=sentence):
        recovered(checkpoint=tmp_path, seed=1)
    other = TABLE.copy()
    other[0, 0] = np.nextafter(other[0, 0], 10)
    with pytest.raises(ValueError, match=sentence):
        lm.recover(other, lm.maps.LowRank(TABLE.shape, 4), checkpoint=tmp_path)
    ended = sorted(tmp_path.glob("ended-*"))
    ended[0].write_bytes(ended[0].read_bytes()[:-3])
    with pytest.raises(ValueError, match="is not a lemmax file"):
        recovered(checkpoint=tmp_path)
    (tmp_path / "journal.json").write_text("[]")
    with pytest.raises(ValueError, match="is not a lemmax file"):
        recovered(checkpoint=tmp_path)


def test_what_follows_a_stop_is_not_kept(tmp_path, impatient):
    def search(stopped):
        with journal(tmp_path, "search", 7):
            first = begun("first")
            if first.ended:
                return first.value
            if not stopped:
                first.end(np.arange(3))
            second = begun("second")
            second.end("of half a first one")
        return None

    assert search(stopped=True) is None
    assert not list(tmp_path.glob("*.safetensors"))
    search(stopped=False)
    np.testing.assert_array_equal(search(stopped=False), np.arange(3))


def test_arrays_keep_their_order_in_memory(tmp_path, impatient):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(2, 0, 1)
    for _ in range(2):
        with journal(tmp_path, "order", 1):
            stage = begun("one")
            if not stage.ended:
                stage.end({"a": array})
    np.testing.assert_array_equal(stage.value["a"], array)
    assert stage.value["a"].strides == array.strides
    stage.value["a"][0, 0, 0] = 5.0  # it can be written to


def test_short_searches_write_nothing_but_who_they_are(tmp_path, monkeypatch):
    monkeypatch.setattr(_journal, "_SECONDS", 600.0)  # on a busy machine nothing is short
    CALLS["RobustPCA"](checkpoint=tmp_path)
    (only,) = tmp_path.iterdir()
    assert set(json.loads(only.read_text())) == {"what", "lemmax", "digest"}


@pytest.mark.parametrize(
    "command",
    [
        "pca table.npy",
        "fit curve.csv",
        pytest.param("complete table.npy", marks=pytest.mark.slow),
        pytest.param("cp tensor.npy", marks=pytest.mark.slow),
    ],
)
def test_commands_go_on(command, tmp_path, impatient):
    np.save(tmp_path / "table.npy", TABLE)
    np.save(tmp_path / "tensor.npy", TENSOR)
    rows = [f"{t},{y}" for t, y in zip(TIMES, CURVE, strict=True)]
    (tmp_path / "curve.csv").write_text("\n".join(["t,y", *rows]))
    (tmp_path / "other.csv").write_text("\n".join(["t,y", *rows[1:]]))
    name, file = command.split()
    formula = ["--model", "y = sin(f*t) + c", "--start", "f=1,c=0"]
    options = ["--out", tmp_path / "out", "--checkpoint", tmp_path / "kept"]
    arguments = [name, tmp_path / file, *options, *(formula if name == "fit" else [])]
    texts = []
    for _ in range(2):
        done = run(*arguments)
        assert done.exit_code in (0, 1), done.output
        texts.append({p.name: p.read_bytes() for p in (tmp_path / "out").glob("*.csv")})
    assert texts[0] == texts[1]
    assert list((tmp_path / "kept").glob("ended-*"))
    said = refusal_of("fit", tmp_path / "other.csv", *options, *formula)
    assert "is the checkpoint of another run" in said
