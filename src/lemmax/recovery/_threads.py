"""Keep LAPACK to one thread while small matrices are decomposed by the hundred."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController

_lock = threading.Lock()
# How many calls are going on, and what the first of them has to restore when the last ends.
_inside, _limits = 0, contextlib.ExitStack()


@contextlib.contextmanager
def one_thread_of_lapack() -> Iterator[None]:
    """No threads in NumPy's and JAX's decompositions on CPUs, until the context ends.

    A search decomposes matrices of some hundred rows again and again. Threads cannot speed that up;
    but they wait for each other actively, and take many times as long where others work as well.
    The limit belongs to the process: calls at the same time share it, and the last one lifts it.
    """
    global _inside
    with _lock:
        if _inside == 0:
            _limits.enter_context(_pools().limit(limits=1))
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _limits.close()


@functools.cache
def _pools() -> Any:
    import scipy.linalg.cython_lapack  # noqa: F401  the library that JAX decomposes with on CPUs

    return ThreadpoolController().select(user_api="blas")
