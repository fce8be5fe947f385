"""Keep LAPACK to one thread while small matrices are decomposed by the hundred."""

import functools
from contextlib import AbstractContextManager
from typing import Any

from threadpoolctl import ThreadpoolController


def one_thread_of_lapack() -> AbstractContextManager[Any]:
    """No threads in NumPy's and JAX's decompositions on CPUs, until the context ends.

    A search decomposes matrices of some hundred rows again and again. Threads cannot speed that up;
    but they wait for each other actively, and take many times as long where others work as well.
    """
    return _pools().limit(limits=1)


@functools.cache
def _pools() -> ThreadpoolController:
    import scipy.linalg.cython_lapack  # noqa: F401  the library that JAX decomposes with on CPUs

    return ThreadpoolController().select(user_api="blas")
