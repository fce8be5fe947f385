"""The nonlinear regression problems of NIST's Statistical Reference Datasets (StRD).

Data, starting values and certified results are those of https://www.itl.nist.gov/div898/strd/
(public domain), digit by digit; ``nist.json`` holds them in the order of the files there.
"""

import functools
import json
import pathlib
from collections.abc import Callable
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np


class Problem(NamedTuple):
    """One data set, its model and its certified results."""

    name: str
    model: Callable[[Any], Any]
    """From the parameters to all data."""
    y: np.ndarray
    starts: tuple[np.ndarray, np.ndarray]
    """The far and the near one."""
    parameters: np.ndarray
    deviations: np.ndarray
    """Certified standard deviations of the parameters."""
    sum_of_squares: float


def _bennett(b, x):
    return b[0] * (b[1] + x) ** (-1 / b[2])


def _saturating(b, x):
    return b[0] * (1 - jnp.exp(-b[1] * x))


def _chwirut(b, x):
    return jnp.exp(-b[0] * x) / (b[1] + b[2] * x)


def _power(b, x):
    return b[0] * x ** b[1]


def _enso(b, x):
    def wave(cosine, sine, period):
        return cosine * jnp.cos(2 * np.pi * x / period) + sine * jnp.sin(2 * np.pi * x / period)

    return b[0] + wave(b[1], b[2], 12) + wave(b[4], b[5], b[3]) + wave(b[7], b[8], b[6])


def _eckerle(b, x):
    return b[0] / b[1] * jnp.exp(-(((x - b[2]) / b[1]) ** 2) / 2)


def _gauss(b, x):
    peaks = [b[k] * jnp.exp(-(((x - b[k + 1]) / b[k + 2]) ** 2)) for k in (2, 5)]
    return b[0] * jnp.exp(-b[1] * x) + peaks[0] + peaks[1]


def _cubic_ratio(b, x):
    above = b[0] + b[1] * x + b[2] * x**2 + b[3] * x**3
    return above / (1 + b[4] * x + b[5] * x**2 + b[6] * x**3)


def _kirby(b, x):
    return (b[0] + b[1] * x + b[2] * x**2) / (1 + b[3] * x + b[4] * x**2)


def _lanczos(b, x):
    return sum(b[k] * jnp.exp(-b[k + 1] * x) for k in (0, 2, 4))


def _mgh09(b, x):
    return b[0] * (x**2 + x * b[1]) / (x**2 + x * b[2] + b[3])


def _mgh10(b, x):
    return b[0] * jnp.exp(b[1] / (x + b[2]))


def _mgh17(b, x):
    return b[0] + b[1] * jnp.exp(-x * b[3]) + b[2] * jnp.exp(-x * b[4])


def _misra1b(b, x):
    return b[0] * (1 - (1 + b[1] * x / 2) ** (-2))


def _misra1c(b, x):
    return b[0] * (1 - (1 + 2 * b[1] * x) ** (-0.5))


def _misra1d(b, x):
    return b[0] * b[1] * x / (1 + b[1] * x)


def _nelson(b, time, temperature):
    return b[0] - b[1] * time * jnp.exp(-b[2] * temperature)


def _rat42(b, x):
    return b[0] / (1 + jnp.exp(b[1] - b[2] * x))


def _rat43(b, x):
    return b[0] / (1 + jnp.exp(b[1] - b[2] * x)) ** (1 / b[3])


def _roszman(b, x):
    return b[0] - b[1] * x - jnp.arctan(b[2] / (x - b[3])) / np.pi


MODELS = {
    "Bennett5": _bennett,
    "BoxBOD": _saturating,
    "Chwirut1": _chwirut,
    "Chwirut2": _chwirut,
    "DanWood": _power,
    "ENSO": _enso,
    "Eckerle4": _eckerle,
    "Gauss1": _gauss,
    "Gauss2": _gauss,
    "Gauss3": _gauss,
    "Hahn1": _cubic_ratio,
    "Kirby2": _kirby,
    "Lanczos1": _lanczos,
    "Lanczos2": _lanczos,
    "Lanczos3": _lanczos,
    "MGH09": _mgh09,
    "MGH10": _mgh10,
    "MGH17": _mgh17,
    "Misra1a": _saturating,
    "Misra1b": _misra1b,
    "Misra1c": _misra1c,
    "Misra1d": _misra1d,
    "Nelson": _nelson,
    "Rat42": _rat42,
    "Rat43": _rat43,
    "Roszman1": _roszman,
    "Thurber": _cubic_ratio,
}


@functools.cache
def problems() -> dict[str, Problem]:
    """All 27, by name; NIST fits the logarithm of Nelson's data."""
    stored = json.loads(pathlib.Path(__file__).with_name("nist.json").read_text())
    return {name: _problem(name, **facts) for name, facts in stored.items()}


def _problem(name, *, y, x, starts, parameters, deviations, sum_of_squares) -> Problem:
    columns = [np.asarray(column) for column in x]
    y = np.asarray(y)
    return Problem(
        name=name,
        model=lambda b: MODELS[name](b, *columns),
        y=np.log(y) if name == "Nelson" else y,
        starts=(np.asarray(starts[0]), np.asarray(starts[1])),
        parameters=np.asarray(parameters),
        deviations=np.asarray(deviations),
        sum_of_squares=sum_of_squares,
    )
