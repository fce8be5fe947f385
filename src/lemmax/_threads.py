"""Limit BLAS and LAPACK to one thread for many small matrices."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController


@contextlib.contextmanager
def one_thread_of_lapack() -> Iterator[None]:
    """Use a single thread in the decompositions of NumPy and JAX on CPUs within the context.

    A search decomposes matrices with some hundred rows again and again. Threads do not speed this
    up, but wait for each other actively, and slow it down many times if other processes run. The
    limit applies to the whole process, and one thread cannot restore what another has set, so
    only the main thread sets it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _pools().limit(limits=1):
        yield


@functools.cache
def _pools() -> Any:
    import scipy.linalg.cython_lapack  # noqa: F401  JAX uses this library for decompositions on CPUs

    return ThreadpoolController().select(user_api="blas")
