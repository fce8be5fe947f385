"""Random problems for `benchmarks.fuzz`: one function for each public entry, with its oracle."""

import functools
import pathlib
from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
import numpy as np

import lemmax as lm
from lemmax import estimators, testing

SIZES = 3
"""How large problems are, at most."""
_DTYPES = (np.float64, np.float64, np.float64, np.float32, np.int32)
_SCALES = (1.0, 1.0, 1e-6, 1e6, 1e-150, 1e100)
_SPOILT = (np.nan, np.inf, -np.inf, 1e300)


class Problem:
    """A source of random inputs, which remembers them."""

    def __init__(self, rng: np.random.Generator, size: int, folder: pathlib.Path):
        self.rng, self.size, self.folder = rng, size, folder
        self.inputs: list[tuple[str, Any, Any]] = []

    def pick(self, *choices: Any) -> Any:
        """One of several, the simplest first; of a small problem, one of the first."""
        allowed = -(-len(choices) * self.size // SIZES)
        return choices[int(self.rng.integers(len(choices))) % allowed]

    def chance(self, probability: float) -> bool:
        """Whether something is done."""
        return bool(self.rng.random() < probability)

    def given(self, name: str, array: np.ndarray) -> np.ndarray:
        """An input, in some memory layout, whose bytes are compared afterwards."""
        if array.ndim > 1 and self.chance(0.2):
            array = np.asfortranarray(array)
        if self.chance(0.2):
            array.flags.writeable = False
        self.inputs.append((name, array, array.copy(order="K")))
        return array

    def table(self, rows: int, columns: int, rank: int, spoil: float = 0.15) -> np.ndarray:
        """Of low rank, with noise or without, with wrong cells and holes; sometimes nonsense."""
        table = self.rng.standard_normal((rows, rank)) @ self.rng.standard_normal((rank, columns))
        table = (table + self.pick(0, 3)) * self.pick(*_SCALES)
        table += self.pick(0, 0.01, 0.3) * np.std(table) * self.rng.standard_normal(table.shape)
        wrong = self.rng.random(table.shape) < self.pick(0, 0.05)
        table[wrong] *= 30
        with np.errstate(invalid="ignore", over="ignore"):
            table = table.astype(self.pick(*_DTYPES))
        if table.dtype.kind == "f":
            table[self.rng.random(table.shape) < self.pick(0, 0.1, 0.5)] = np.nan
            if self.chance(spoil):
                table[tuple(self.rng.integers(table.shape))] = self.pick(*_SPOILT)
        if self.chance(0.1):
            table[:, 0] = table[0, 0]
        if self.chance(0.05):
            table[:] = 0
        return table


def _finite(**arrays: Any) -> None:
    for name, array in arrays.items():
        assert np.all(np.isfinite(np.asarray(array, float))), f"{name} is not finite"


def solve(p: Problem) -> None:
    # Few shapes: each is compiled once.
    dim, rank = 3, p.pick(2, 5)
    truth = p.rng.standard_normal((dim, p.pick(1, 2))) * p.pick(1.0, 1e-3, 1e3)
    A = p.given("A", p.rng.standard_normal((20, dim, dim)).astype(p.pick(*_DTYPES[:4])))
    data = np.einsum("mij,ik,jk->m", A, truth, truth).astype(A.dtype)
    if p.chance(0.3):
        data[0] = p.pick(np.nan, np.inf, 1e30, 0.0)
    data, x0 = p.given("data", data), p.rng.standard_normal((dim, rank)) * p.pick(1.0, 0.0, 1e8)
    loss = p.pick(lm.losses.L1(), lm.losses.L2(), lm.losses.SquaredL2(), lm.losses.Huber(1.0))
    own = lm.Composite(
        loss,
        lm.maps.PSD(dim, rank),
        data,
        p.pick(lm.operators.Dense, lm.operators.SymmetricDense)(A),
    )
    x0 = p.given("x0", x0.astype(A.dtype))
    stop = p.pick(None, lambda snapshot: snapshot.step > 3)
    result = lm.solve(
        own, lm.methods.lmm(), x0, max_steps=p.pick(40, 60, 0), callback=stop, every=2
    )
    assert result.status is not lm.Status.RUNNING
    value = float(own.evaluate(result.x).value)
    assert np.isclose(value, result.value, rtol=1e-3, atol=1e-30), (value, result.value)
    values = np.asarray(result.trace.value)
    assert len(values) == int(result.steps) + 1, "rows of the trace"
    assert float(result.value) <= np.nanmin(values), "the best is returned"
    result.save(p.folder / "r.safetensors")
    again = lm.load(p.folder / "r.safetensors")
    assert np.asarray(again.x).tobytes() == np.asarray(result.x).tobytes(), "saved and loaded"


def recover(p: Problem) -> None:
    rows, columns, rank = p.pick(8, 12), p.pick(6, 10), p.pick(1, 2)
    table = p.given("data", p.table(rows, columns, rank, spoil=0.1))
    bound = p.pick(1, 2, 3)
    found = lm.recover(table, lm.maps.LowRank((rows, columns), bound), max_seconds=p.pick(5, 0.5))
    if found.status is lm.RecoveryStatus.EXACT:
        _finite(point=found.point.dense())
        right = np.ones(table.shape, bool)
        right[found.outliers] = False
        right &= ~np.isnan(np.asarray(table, float))
        off = np.abs(np.asarray(found.point.dense()) - table)[right]
        size = np.max(np.abs(np.asarray(table, float))[right], initial=0)
        precision = 1e-3 if table.dtype == np.float32 else 1e-5
        assert np.all(off <= precision * size), "EXACT, and cells are not explained"
    again = lm.recover(table, lm.maps.LowRank((rows, columns), bound), max_seconds=60)
    if found.status is not lm.RecoveryStatus.INTERRUPTED:
        assert again.status is found.status, "the same call has another verdict"


def fit(p: Problem) -> None:
    t = np.linspace(0, 1, p.pick(3, 12, 30))
    a, b = p.rng.standard_normal(2) * p.pick(1.0, 1e-8, 1e8)
    kind = p.pick("line", "exp", "nan", "late", "shape")

    def model(x: Any, t: Any) -> Any:
        if kind == "nan":
            return x["a"] * t * np.nan
        if kind == "late":  # NaN in some part of the parameters
            return jnp.sqrt(x["a"]) + x["b"] * t
        if kind == "shape":
            return x["a"] * t[:-1]
        return x["a"] + x["b"] * t if kind == "line" else x["a"] * jnp.exp(x["b"] * t)

    y = a + b * t + p.pick(0, 0.1) * abs(b) * p.rng.standard_normal(len(t))
    if p.chance(0.3):
        y[0] = p.pick(np.nan, np.inf, 1e200)
    y, start = p.given("y", y), {"a": p.pick(1.0, -1.0, 0.0), "b": 1.0}
    found = lm.fit(model, y, start, args=(t,), max_seconds=5)
    if found.status.succeeded:
        _finite(x=[found.x["a"], found.x["b"]], noise=found.noise)
        value = np.asarray(model({k: jnp.asarray(v) for k, v in found.x.items()}, t))
        seen = np.isfinite(y)
        scale = np.max(np.abs(y[seen]))
        gap = np.abs(value - y - found.residual)[seen]
        assert np.all(gap <= 1e-4 * scale), "the residual is another"
    assert start == {"a": start["a"], "b": 1.0}
    found.save(p.folder / "f.safetensors")
    assert lm.load(p.folder / "f.safetensors").summary() == found.summary(), "saved and loaded"


def _table_estimator(p: Problem) -> tuple[Any, np.ndarray]:
    table = p.given("X", p.table(p.pick(2, 12, 30), p.pick(1, 2, 6), p.pick(1, 2)))
    kind = p.pick(estimators.RobustPCA, estimators.MatrixCompletion)
    return kind(p.pick(None, 1, 2, 50), loss=p.pick("robust", "squared")).fit(table), table


def tables(p: Problem) -> None:
    model, table = _table_estimator(p)
    path = p.folder / "m.safetensors"
    model.save(path)
    again = type(model).load(path)
    assert again.summary() == model.summary(), "saved and loaded"
    assert np.array_equal(again.transform(table), model.transform(table), equal_nan=True)
    if isinstance(model, estimators.RobustPCA):
        seen = ~np.isnan(np.asarray(table, float))
        wrong = model.outliers_.toarray() != 0
        same = np.asarray(model.cleaned_)[seen & ~wrong] == table[seen & ~wrong]
        assert np.all(same), "a right cell was changed"
        _finite(cleaned=model.cleaned_, mean=model.mean_)
        lower, upper = model.predict_interval(0.9)
        assert np.all(lower <= upper), "an interval is upside down"
    data = bytearray(path.read_bytes())
    place = int(p.rng.integers(len(data)))
    data[place] ^= 1 << int(p.rng.integers(8))
    path.write_bytes(bytes(data))
    try:
        type(model).load(path)
    except ValueError:
        return
    raise AssertionError(f"a flipped bit at {place} was not noticed")


def tensors(p: Problem) -> None:
    shape = (p.pick(2, 5), p.pick(3, 5), 4)
    factors = [p.rng.standard_normal((size, 2)) for size in shape]
    tensor = np.einsum("ar,br,cr->abc", *factors) * p.pick(1.0, 1e-9, 1e9)
    tensor += p.pick(0, 0.1) * np.std(tensor) * p.rng.standard_normal(shape)
    tensor[p.rng.random(shape) < p.pick(0, 0.2)] = np.nan
    if p.chance(0.15):
        tensor[0, 0, 0] = p.pick(*_SPOILT)
    tensor = p.given("X", tensor)
    model = estimators.CPDecomposition(p.pick(1, 2, 4), max_seconds=5).fit(tensor)
    right = ~np.isnan(tensor) & (model.outliers_.toarray() == 0)
    if model.status_ == "EXACT":
        off = np.abs(model.reconstruct() - tensor)[right]
        assert np.all(off <= 1e-5 * np.nanmax(np.abs(tensor))), "EXACT, and entries are off"


def regression(p: Problem) -> None:
    X = p.rng.standard_normal((p.pick(1, 10, 40), p.pick(1, 3, 12))) * p.pick(*_SCALES[:4])
    y = X @ np.abs(p.rng.standard_normal(X.shape[1]))
    spoilt = p.chance(0.2)
    if spoilt:
        X[0, 0] = p.pick(*_SPOILT)
    X, y = p.given("X", X), p.given("y", y)
    model = estimators.NonnegativeRegression(p.pick("squared", "robust")).fit(X, y)
    assert np.all(model.coef_ >= 0), "a coefficient is negative"
    if model.settled_ and not spoilt:
        left = np.abs(model.predict(X) - y)
        assert np.all(left <= 1e-5 * max(np.max(np.abs(y)), 1e-300)), "an exact system is left"


def commands(p: Problem) -> None:
    import pandas as pd
    from typer.testing import CliRunner

    from lemmax.cli.app import app

    table = p.table(p.pick(3, 20), p.pick(1, 4), 1)
    names = [p.pick("a", "=1+1", "<b>", "", "ü", "7") + str(k) for k in range(table.shape[1])]
    path = p.folder / p.pick("t.csv", "t.npy", "t.xlsx", "t.txt", "t.npz")
    if path.suffix == ".npy":
        np.save(path, table)
    elif path.suffix == ".npz":
        np.savez(path, table)
    elif path.suffix == ".xlsx":
        pd.DataFrame(table, columns=names).to_excel(path, index=False)
    else:
        pd.DataFrame(table, columns=names).to_csv(path, index=p.chance(0.5))
    if p.chance(0.3):
        data = path.read_bytes()
        path.write_bytes(data[: int(p.rng.integers(len(data)))])
    out = p.folder / "out"
    arguments = [p.pick("pca", "complete"), str(path), "--out", str(out)]
    result = CliRunner().invoke(app, arguments)
    raised = result.exception
    assert raised is None or isinstance(raised, SystemExit), f"{type(raised).__name__}: {raised}"
    assert result.exit_code in (0, 1, 2), result.exit_code
    assert "Traceback" not in result.output
    assert out.exists() == (result.exit_code != 2), "what was refused has written files"
    for text in out.glob("*.csv"):
        cells = text.read_text().replace("\n", ",").split(",")
        assert not any(cell.startswith(("=", "@")) for cell in cells), f"{text.name} runs a cell"
    if out.exists():
        assert "<b>" not in (out / "report.html").read_text(), "a name is not escaped"


def operators(p: Problem) -> None:
    dim, m = p.pick(1, 3), p.pick(1, 7)
    dtype = p.pick(*_DTYPES[:4])
    x = p.rng.standard_normal((dim, p.pick(1, 2))).astype(dtype)
    make, shape = p.pick(
        (lm.operators.Dense, (m, dim, dim)),
        (lm.operators.SymmetricDense, (m, dim, dim)),
        (lm.operators.RankOne, (m, dim)),
    )
    array = p.rng.standard_normal(shape).astype(dtype) * p.pick(1, 1, 1e10)
    if p.chance(0.1):
        array[0] = p.pick(*_SPOILT[:3])
    operator = make(p.given("array", array))
    point = lm.points.KruskalPoint((x, x))
    testing.check_operator(operator, point, 0, rtol=1e-3 if dtype == np.float32 else 1e-9)


def maps(p: Problem) -> None:
    dims = tuple(p.pick(2, 3) for _ in range(3))
    map = p.pick(
        lm.maps.PSD(dims[0], 2),
        lm.maps.LowRank(dims[:2], 1),
        lm.maps.CP(dims, 2),
        lm.maps.Square(dims[0]),
    )
    shapes = map.parameter_shapes
    flat = not isinstance(shapes[0], tuple)
    made = [
        p.rng.standard_normal(shape) * p.pick(1.0, 1e-3) for shape in ([shapes] if flat else shapes)
    ]
    x = made[0] if flat else tuple(made)
    testing.check_map(map, x, 0)


def saving(p: Problem) -> None:
    """A tree of anything that can be saved comes back, or a flipped bit is told."""
    from lemmax._plain import Kinds
    from lemmax._storage import Unreadable, read, write

    def grown(depth: int) -> Any:
        kind = p.pick("array", "number", "text", "list", "dict", "sparse", "time", "none")
        if kind == "array" or depth == 0:
            shape = tuple(p.rng.integers(0, 4, p.pick(0, 1, 3)))
            dtype = p.pick(np.float64, np.float32, np.int64, np.uint8, bool, np.complex128)
            array = (100 * p.rng.random(shape)).astype(dtype)
            return array.transpose() if p.chance(0.3) else array
        if kind == "number":
            return p.pick(0, 1.5, True, np.float32(2), -0.0, 10**30, np.nan)
        if kind == "text":
            return "".join(chr(p.rng.integers(1, 0xD000)) for _ in range(p.pick(0, 1, 9)))
        if kind == "sparse":
            from scipy import sparse

            return sparse.coo_array(p.rng.standard_normal((2, 3)))
        if kind == "time":
            unit = p.pick("D", "ns", "M", "25s")
            return np.array(["2020-01-01", "NaT"], f"datetime64[{unit}]")
        if kind == "none":
            return None
        parts = [grown(depth - 1) for _ in range(p.pick(0, 1, 3))]
        return p.pick(list, tuple)(parts) if kind == "list" else dict(enumerate(parts))

    path, value = p.folder / "v.safetensors", grown(3)
    write(path, "anything", value, Kinds())
    try:
        again = read(path, "anything", Kinds())
    except Unreadable as error:
        raise AssertionError(f"what was written cannot be read: {error}") from error
    assert _described(again) == _described(value), "another value"
    data = bytearray(path.read_bytes())
    place = int(p.rng.integers(len(data)))
    data[place] ^= 1 << int(p.rng.integers(8))
    path.write_bytes(bytes(data[: None if p.chance(0.8) else place]))
    try:
        read(path, "anything", Kinds())
    except Unreadable:
        return
    raise AssertionError(f"a flipped bit at {place} was not noticed")


def _described(value: Any) -> Any:
    """A value with the bytes of its arrays, their types and their order in memory."""
    if isinstance(value, dict):
        return {key: _described(part) for key, part in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value).__name__, [_described(part) for part in value]
    if hasattr(value, "tocoo"):
        return value.toarray().tobytes()
    if isinstance(value, (np.ndarray, np.generic)):
        return type(value).__name__, str(value.dtype), value.shape, value.tobytes()
    return type(value).__name__, repr(value)


def losses(p: Problem) -> None:
    make = p.pick(
        lm.losses.L1,
        lm.losses.L2,
        lm.losses.SquaredL2,
        functools.partial(lm.losses.Huber, 1.0),
        functools.partial(lm.losses.Quantile, 0.3),
    )
    weights = p.pick(None, p.rng.random(p.size + 2))
    testing.check_loss(make(weights=weights), p.size + 2, int(p.rng.integers(2**31)))


CASES: dict[str, Callable[[Problem], None]] = {
    "solve": solve,
    "recover": recover,
    "fit": fit,
    "tables": tables,
    "tensors": tensors,
    "regression": regression,
    "commands": commands,
    "operators": operators,
    "maps": maps,
    "losses": losses,
    "saving": saving,
}
