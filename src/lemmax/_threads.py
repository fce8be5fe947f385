"""Keep BLAS and LAPACK to one thread while small matrices are handled by the hundred."""

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

from threadpoolctl import ThreadpoolController


@contextlib.contextmanager
def one_thread_of_lapack() -> Iterator[None]:
    """No threads in NumPy's and JAX's decompositions on CPUs, until the context ends.

    A search decomposes matrices of some hundred rows again and again. Threads cannot speed that up;
    but they wait for each other actively, and take many times as long where others work as well.
    The limit belongs to the process, and what one thread sets another may not restore: only the
    main thread sets it.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    with _pools().limit(limits=1):
        yield


@functools.cache
def _pools() -> Any:
    import scipy.linalg.cython_lapack  # noqa: F401  the library that JAX decomposes with on CPUs

    return ThreadpoolController().select(user_api="blas")
