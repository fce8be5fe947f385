"""Ctrl-C during a fit: the first ends it with what there is, the second ends the command."""

import contextlib
import signal
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any


class _GivenUp(BaseException):
    """The second Ctrl-C: a fit keeps every KeyboardInterrupt to itself."""


def fit_until_interrupted(model: Any, data: Sequence[Any], options: Mapping[str, Any]) -> None:
    """Fit a model; after Ctrl-C it is what it was then.

    Parameters
    ----------
    model : estimator
    data : sequence
        What its fit takes.
    options : mapping
        Keyword arguments of its fit.

    Raises
    ------
    KeyboardInterrupt
        If there was nothing yet.
    """
    try:
        model.fit(*data, **options)
        whole = getattr(model, "status_", "") != "INTERRUPTED"
    except KeyboardInterrupt:
        # A model of several fits raises, too, and has its last one nevertheless.
        whole = False
    if not (whole or _has_answer(model)):
        raise KeyboardInterrupt


@contextlib.contextmanager
def giving_up_at_second(first: Callable[[], None]) -> Iterator[None]:
    """The first Ctrl-C is raised as ever; the second so that a fit cannot catch it."""
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
    """Whether an interrupted fit has left all its attributes, and a component at least."""
    stopped = getattr(model, "status_", "") == "INTERRUPTED"
    found = getattr(model, "n_components_", getattr(model, "rank_", 0))
    return stopped and hasattr(model, "outliers_") and found > 0
