"""Ctrl-C during a fit: the first ends the fit with its current result, the second the command."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class _GivenUp(BaseException):
    """The second Ctrl-C, which a fit does not catch, unlike KeyboardInterrupt."""


def fit_until_interrupted(model: Any, data: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Fit a model; after Ctrl-C it has its latest state.

    Parameters
    ----------
    model : estimator
    data : sequence
        Positional arguments of its fit.
    options : mapping
        Keyword arguments of its fit.

    Raises
    ------
    KeyboardInterrupt
        If there is no result yet.
    """
    try:
        model.fit(*data, **options)
        whole = getattr(model, "status_", "") != "INTERRUPTED"
    except KeyboardInterrupt:
        # A model that consists of several fits raises as well, but has the result of the last.
        whole = False
    if not (whole or _has_answer(model)):
        raise KeyboardInterrupt


@contextlib.contextmanager
def giving_up_at_second(first: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C raises KeyboardInterrupt; the second an exception that fits do not catch."""
    usual = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if not usual or threading.current_thread() is not threading.main_thread():
        yield
        return
    asked = False

    def interrupt(*_: Any) -> None:
        nonlocal asked
        if asked:
            raise _GivenUp
        asked = True
        first()
        raise KeyboardInterrupt

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    except _GivenUp:
        raise KeyboardInterrupt from None
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _has_answer(model: Any) -> bool:
    """Whether an interrupted fit has all its attributes, and at least one component."""
    stopped = getattr(model, "status_", "") == "INTERRUPTED"
    found = getattr(model, "n_components_", getattr(model, "rank_", 0))
    return stopped and hasattr(model, "outliers_") and found > 0
