"""Reading of saved results and models."""

import pathlib
from typing import Any

from ._storage import Unreadable, contents, read
from .fit._restoring import restored
from .fit.many import KINDS as MANY_FITS
from .fit.result import KINDS as FITS
from .recovery.found import KINDS as RECOVERIES
from .solve.result import KINDS as RESULTS


def load(path: str | pathlib.Path, model: Any = None) -> Any:
    """Read a file written by ``save`` of a result, a recovery, a fit or an estimator.

    A file contains numbers and names, never code. It is checked before objects are created, and
    nothing is executed. Arrays are NumPy arrays, bitwise equal to those saved.

    Parameters
    ----------
    path : str or Path
    model : callable or map, optional
        For a fit, the fitted function; for a recovery with a function of your own, its map.
        Functions are not saved. Without it the numbers are available, but methods that evaluate
        the function raise an error.

    Returns
    -------
    Result, Recovery, Fit, ManyFits or estimator

    Raises
    ------
    ValueError
        If the file is damaged, or contains something else.

    Examples
    --------
    >>> import pathlib, tempfile
    >>> import numpy as np
    >>> import lemmax as lm
    >>> def line(x, t):
    ...     return x["a"] + x["b"] * t
    >>> t = np.array([0.0, 1.0, 2.0, 3.0, 4.0])
    >>> y = np.array([1.1, 2.9, 5.1, 6.9, 9.1])
    >>> fitted = lm.fit(line, y, {"a": 1.0, "b": 1.0}, args=(t,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     fitted.save(pathlib.Path(folder) / "fit.safetensors")
    ...     again = lm.load(pathlib.Path(folder) / "fit.safetensors", model=line)
    >>> bool(np.all(again.predict().high == fitted.predict().high))
    True
    """
    what = contents(path)
    if what == "Result":
        return read(path, what, RESULTS)
    if what == "Recovery":
        found = read(path, what, RECOVERIES)
        if model is not None and found.map is None:
            object.__setattr__(found, "map", model)
        return found
    if what == "Fit":
        return restored(read(path, what, FITS), model)
    if what == "ManyFits":
        return read(path, what, MANY_FITS)
    if not what:
        raise Unreadable(f"{path} was not written by this version of lemmax.")
    from .estimators._saving import Saved

    return Saved.load(path)
