"""Saved things come back to the last bit; what was tampered with is refused in one sentence."""

import dataclasses
import errno
import json
import os
import struct
import subprocess
import sys

import jax
import jax.numpy as jnp
import numpy as np
import pandas as pd
import pytest

import lemmax as lm
from lemmax import _files
from lemmax._plain import Kinds, Misfit, Reading
from lemmax._storage import Unreadable, _digest, read, write
from lemmax.estimators import MatrixCompletion, NonnegativeRegression, RobustPCA
from lemmax.recovery._objections import Objection
from lemmax.status import Status


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    table = rng.standard_normal((30, 2)) @ rng.standard_normal((2, 6)) + 3
    table[3, 3] = 77.0
    return RobustPCA(2).fit(table)


@pytest.fixture
def path(model, tmp_path):
    model.save(tmp_path / "model.safetensors")
    return tmp_path / "model.safetensors"


def header_of(path):
    data = path.read_bytes()
    (length,) = struct.unpack("<Q", data[:8])
    return json.loads(data[8 : 8 + length]), data[8 + length :]


def forge(path, change, honest=True):
    """Change what a file says; with the digest that it then should have."""
    from safetensors.numpy import load_file

    arrays = load_file(path)
    header, rest = header_of(path)
    metadata = header["__metadata__"]
    content = json.loads(metadata["content"])
    change(metadata, content, arrays)
    metadata["content"] = json.dumps(content)
    if honest:
        metadata["digest"] = _digest(metadata["what"], metadata["content"], arrays)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + rest)


def part(content, name):
    return next(value for key, value in content["dict"] if key == name)


def test_what_is_cut_or_flipped_is_one_sentence(path):
    whole = path.read_bytes()
    rng = np.random.default_rng(1)
    for _ in range(60):
        cut, flipped = whole[: rng.integers(len(whole))], bytearray(whole)
        flipped[rng.integers(len(whole))] ^= 1 << int(rng.integers(8))
        for data in (cut, bytes(flipped)):
            path.write_bytes(data)
            with pytest.raises(Unreadable, match=rf"^{path} [^\n]*\.$"):
                RobustPCA.load(path)


def nested(metadata, content, arrays):
    content["dict"] = [["params", {"list": []}]]
    for _ in range(50):
        content["dict"][0][1] = {"list": [content["dict"][0][1]]}


FORGERIES = {
    "has no 'transform'": lambda m, c, a: part(c, "fitted")["dict"].append(["transform", 1]),
    "has no '__class__'": lambda m, c, a: part(c, "fitted")["dict"].append(["__class__", 1]),
    "has no '_model'": lambda m, c, a: part(c, "fitted")["dict"].append(["_model", 1]),
    "has no 'recovery_'": lambda m, c, a: part(c, "fitted")["dict"].append(["recovery_", 1]),
    "has no 'run'": lambda m, c, a: part(c, "params")["dict"].append(["run", 1]),
    "mean_ of a RobustPCA has another type": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["mean_", "none"]
    ),
    "the array 'absent' is missing": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["mean_", {"array": "absent"}]
    ),
    "the type 'eval' is unknown": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["mean_", {"eval": "1"}]
    ),
    "'system' is not one of the allowed classes": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["report_", {"object": "system", "of": "ls"}]
    ),
    "a TableReport has other fields": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["report_", {"object": "TableReport", "of": {"dict": [["x", 1]]}}]
    ),
    "state of a RobustPCA has another type": nested,
    "attributes are inconsistent": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["factor_model_", {"dict": []}]
    ),
    "a shape does not consist of sizes": lambda m, c, a: part(c, "fitted")["dict"].append(
        ["outliers_", {"sparse": "csr", "shape": [-1, 2], "places": [], "values": ""}]
    ),
    "contains a NonnegativeRegression, not a RobustPCA": lambda m, c, a: m.update(
        what="NonnegativeRegression"
    ),
    "contains a Popen, not a RobustPCA": lambda m, c, a: m.update(what="Popen"),
    "not written by this version": lambda m, c, a: m.update(format="lemmax 9"),
}


@pytest.mark.parametrize("sentence", FORGERIES)
def test_what_a_file_may_not_say(path, sentence):
    forge(path, FORGERIES[sentence])
    with pytest.raises(Unreadable, match=sentence):
        RobustPCA.load(path)


@pytest.mark.parametrize("what", ["Fit", "ManyFits", "Recovery", "Result"])
def test_files_that_contain_something_else_than_they_say(path, what):
    def change(metadata, content, arrays):
        metadata["what"] = what
        content.clear()
        content.update({"list": [1.0]})

    forge(path, change)
    with pytest.raises(Unreadable, match=f"is not a valid {what}: it contains a list"):
        lm.load(path)


def test_enumerations_have_members_with_names():
    with pytest.raises(Misfit, match=r"Status has no \{\}"):
        Reading(Kinds(Status), {}).value({"object": "Status", "of": {"dict": []}})


def test_huge_shapes_are_refused_before_they_are_allocated(path):
    huge = {"sparse": "csr", "shape": [2**50, 2], "places": ["outliers_.0"] * 2, "values": "x"}
    forge(path, lambda m, c, a: part(c, "fitted")["dict"].append(["outliers_", huge]))
    with pytest.raises(MemoryError, match="A sparse array needs"):
        RobustPCA.load(path)


def test_changed_numbers_are_noticed(path):
    forge(path, lambda m, c, a: part(c, "fitted")["dict"].pop(), honest=False)
    with pytest.raises(Unreadable, match="damaged or modified after it was written"):
        RobustPCA.load(path)


def test_names_come_back_as_they_were(tmp_path):
    rng = np.random.default_rng(2)
    frame = pd.DataFrame(
        {
            "user": [("a", k % 7) if k % 2 else k % 7 for k in range(60)],
            "item": [f"item {k % 9}" for k in range(60)],
            "rating": rng.integers(1, 6, 60).astype(float),
        }
    )
    with pytest.warns(UserWarning, match="MatrixCompletion"):
        model = MatrixCompletion(1).fit(frame)
    model.save(tmp_path / "m.safetensors")
    again = MatrixCompletion.load(tmp_path / "m.safetensors")
    assert again.row_ids_.tolist() == model.row_ids_.tolist()
    places = [(name, "item 3") for name in model.row_ids_[:4]]
    pairs = tuple(np.array([None, *column], object)[1:] for column in zip(*places, strict=True))
    np.testing.assert_array_equal(again.predict(pairs), model.predict(pairs))


@pytest.mark.parametrize("unit", ["Y", "M", "W", "D", "h", "25s", "ns"])
def test_times_of_all_units(tmp_path, unit):
    value = np.array(["2020-01-01", "NaT"], f"datetime64[{unit}]")
    write(tmp_path / "t", "times", value, Kinds())
    again = read(tmp_path / "t", "times", Kinds())
    assert again.dtype == value.dtype
    assert again.tobytes() == value.tobytes()


def test_arrays_keep_the_order_of_their_axes(tmp_path):
    array = np.arange(24.0).reshape(2, 3, 4).transpose(1, 2, 0)
    write(tmp_path / "a", "array", array, Kinds())
    again = read(tmp_path / "a", "array", Kinds())
    np.testing.assert_array_equal(again, array)
    assert again.strides == array.strides
    for axes in ([0, 1], [0, 0, 1], ["a", 0, 1], [True, False, 2], None):
        forge(tmp_path / "a", lambda metadata, content, arrays, k=axes: content.update(axes=k))
        with pytest.raises(Unreadable, match="is not a valid array"):
            read(tmp_path / "a", "array", Kinds())


def test_what_cannot_be_saved_says_so(tmp_path):
    model = NonnegativeRegression().fit(np.eye(3), np.ones(3))
    model.loss = len
    with pytest.raises(TypeError, match=r"params.loss cannot be saved: it is a builtin_function"):
        model.save(tmp_path / "m.safetensors")
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        model.save(tmp_path / "absent" / "m.safetensors")
    assert not list(tmp_path.iterdir())


def same(a, b):
    """Equal to the last bit, type by type; arrays as NumPy's."""
    if dataclasses.is_dataclass(a):
        assert type(a) is type(b)
        for field in dataclasses.fields(a):
            same(getattr(a, field.name), getattr(b, field.name))
    elif isinstance(a, dict):
        assert list(a) == list(b)
        same(list(a.values()), list(b.values()))
    elif isinstance(a, (list, tuple)):
        assert type(a) is type(b)
        for one, other in zip(a, b, strict=True):
            same(one, other)
    elif isinstance(a, (np.ndarray, np.generic, jax.Array)):
        a, b = np.asarray(a), np.asarray(b)
        assert (a.shape, a.dtype, a.tobytes()) == (b.shape, b.dtype, b.tobytes())
    elif not callable(a):
        assert type(a) is type(b)
        assert a == b or a != a


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_results(tmp_path, dtype):
    data = np.array([1.0, 4.0, 0.0], dtype)
    problem = lm.Composite(lm.losses.L2(), lm.maps.Square(3), data=data)
    metrics = {"first": lambda x, evaluation: x[0]}
    start = np.array([1.5, 1.5, 0.5], dtype)
    result = lm.solve(problem, lm.methods.lmm(), start, metrics=metrics)
    result.save(tmp_path / "r.safetensors")
    again = lm.load(tmp_path / "r.safetensors")
    same(result, again)
    assert str(again) == str(result)
    with pytest.raises(Unreadable, match="contains a Result, not a RobustPCA"):
        RobustPCA.load(tmp_path / "r.safetensors")


def test_recoveries(tmp_path):
    rng = np.random.default_rng(4)
    table = rng.standard_normal((12, 1)) @ rng.standard_normal((1, 9))
    table[2, 3] += 5.0
    found = lm.recover(table, lm.maps.LowRank((12, 9), rank=2))
    objection = Objection("{} say little", ([1, 2], [3]))
    found = dataclasses.replace(found, objections=(objection, "plain"))
    path = tmp_path / "r.safetensors"
    found.save(path)
    again = lm.load(path)
    same(found, again)
    assert again.summary() == found.summary()
    assert again.named(str, str).objections == found.named(str, str).objections
    own = dataclasses.replace(found, map=lm.maps.FromFunction(lambda x: x))
    own.save(path)
    assert lm.load(path).map is None
    assert lm.load(path, model=own.map).map is own.map


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"outliers": (np.array([99]), np.array([0]))}, "its outliers are not places"),
        ({"outliers": (np.array([0, 1]), np.array([0, 1, 2]))}, "its outliers are not places"),
        ({"x": (np.ones((3, 1)), np.ones((9, 1)))}, "takes parameters of shape"),
    ],
)
def test_a_recovery_whose_parts_do_not_fit_together_is_refused(tmp_path, change, sentence):
    table = np.outer(np.arange(1.0, 13.0), np.arange(1.0, 10.0))
    found = lm.recover(table, lm.maps.LowRank((12, 9), rank=1))
    path = tmp_path / "r.safetensors"
    dataclasses.replace(found, **change).save(path)
    with pytest.raises(Unreadable, match=sentence):
        lm.load(path)


def curve(x, t):
    turned = jax.lax.complex(jnp.cos(x["b"][0] * t), jnp.sin(x["b"][0] * t))
    return {"y": x["a"].astype(complex) * turned, "z": x["b"] * jnp.sum(t)}


def test_fits(tmp_path):
    t = np.linspace(0, 1, 20)
    data = {"y": 2 * np.exp(1.5j * t) + 0.01 * np.cos(9 * t), "z": np.array([15.0])}
    fitted = lm.fit(curve, data, {"a": 1.0, "b": np.array([1.0])}, args=(t,), bounds=(0.0, 9.0))
    path = tmp_path / "f.safetensors"
    fitted.save(path)
    again = lm.load(path, model=curve)
    same(
        [getattr(again, f.name) for f in dataclasses.fields(lm.Fit) if f.name != "task"],
        [getattr(fitted, f.name) for f in dataclasses.fields(lm.Fit) if f.name != "task"],
    )
    assert again.task.layout == fitted.task.layout
    assert again.task.outputs == fitted.task.outputs
    assert again.summary() == fitted.summary()
    same(list(again.predict()), list(fitted.predict()))
    same(
        again.standard_error_of(lambda x: x["a"] / x["b"]),
        fitted.standard_error_of(lambda x: x["a"] / x["b"]),
    )
    alone = lm.load(path)
    same(list(alone.interval()), list(fitted.interval()))
    with pytest.raises(ValueError, match="The model is a function, which is not saved"):
        alone.predict()


def test_fits_to_many_curves(tmp_path):
    t = np.linspace(0, 1, 20)
    y = np.exp(-np.array([[1.0], [2.0]]) * t) + 0.01 * np.cos(9 * t)
    fits = lm.fit_many(lambda x: x["a"] * jnp.exp(-x["b"] * t), y, {"a": 1.0, "b": 1.0})
    fits.save(tmp_path / "m.safetensors")
    again = lm.load(tmp_path / "m.safetensors")
    names = [f.name for f in dataclasses.fields(lm.ManyFits) if f.name != "task"]
    same([getattr(again, name) for name in names], [getattr(fits, name) for name in names])
    with pytest.raises(ValueError, match="Model and data are not saved"):
        again.one(0)


def test_models(path, model):
    same(lm.load(path).components_, model.components_)


def full_disk(monkeypatch, after):
    """A disk that is full after so many files."""
    flush, count = _files._flush, iter(range(1000))

    def fails(path):
        if next(count) >= after:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(path)

    monkeypatch.setattr(_files, "_flush", fails)


@pytest.mark.parametrize("after", [0, 2])
def test_a_full_disk_names_the_file_and_leaves_what_was_there(tmp_path, monkeypatch, after):
    files = {tmp_path / f"{k}.csv": _files.text_writer(f"new {k}") for k in range(4)}
    (tmp_path / "0.csv").write_text("old")
    full_disk(monkeypatch, after)
    with pytest.raises(OSError, match="No space left") as caught:
        _files.save_all(files)
    assert caught.value.filename == str(tmp_path / f"{after}.csv")
    assert [path.name for path in tmp_path.iterdir()] == ["0.csv"]
    assert (tmp_path / "0.csv").read_text() == "old"


def test_a_command_on_a_full_disk(tmp_path, monkeypatch):
    from .commands import refusal_of

    rng = np.random.default_rng(3)
    np.save(tmp_path / "t.npy", rng.standard_normal((20, 2)) @ rng.standard_normal((2, 5)))
    full_disk(monkeypatch, 3)
    said = refusal_of("pca", tmp_path / "t.npy", "--out", tmp_path / "a" / "b")
    assert "No space left on device" in said
    assert "a/b/" in said.replace("\n", "")
    assert [path.name for path in tmp_path.iterdir()] == ["t.npy"]


def test_files_are_as_public_as_others(path, tmp_path):
    (tmp_path / "other").touch()
    assert path.stat().st_mode == (tmp_path / "other").stat().st_mode


KILLED = """
import os, pathlib, signal, sys
from lemmax._files import save
def write(partial):
    pathlib.Path(partial).write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
save(pathlib.Path(sys.argv[1]), write)
"""


@pytest.mark.skipif(os.name != "posix", reason="there is no SIGKILL")
def test_what_a_killed_process_left_is_removed_by_the_next(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("old")
    done = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert done.returncode == -9
    assert len(list(tmp_path.iterdir())) == 2
    assert path.read_text() == "old"
    _files.save_text(path, "new")
    assert [each.name for each in tmp_path.iterdir()] == ["a.csv"]
    assert path.read_text() == "new"


def test_a_model_that_is_not_the_one_of_the_fit_is_refused(tmp_path):
    t = np.linspace(0.0, 3.0, 20)
    y = 2 * np.exp(-t) + 0.01 * np.cos(40 * t)
    y[3] = np.nan
    fitted = lm.fit(lambda x, t: x[0] * jnp.exp(-x[1] * t), y, np.ones(2), args=(t,))
    fitted.save(tmp_path / "fit")
    for other in (lambda x, t: x[0] * t, lambda x, t: x[0] * jnp.exp(-x[1] * t[1:])):
        with pytest.raises(ValueError, match="not the one that was fitted"):
            lm.load(tmp_path / "fit", model=other)
    again = lm.load(tmp_path / "fit", model=lambda x, t: jnp.exp(-x[1] * t) * x[0])
    assert again.predict().value.shape == (20,)
