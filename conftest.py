"""Tests and doctests run in float64, with implicit promotion of dtypes and ranks forbidden."""

import gc
import os
import pathlib
import signal

# Most of the time goes into compiling: what one process has compiled, no other has to, nor the next
# run. (JAX reads these when it is imported.)
_COMPILED = pathlib.Path(__file__).parent / ".pytest_cache" / "compiled"
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_COMPILED))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.1")

import beartype.door  # noqa: E402, F401
import jax  # noqa: E402
import matplotlib  # noqa: E402, F401
import pandas  # noqa: E402, F401
import pytest  # noqa: E402
import scipy.stats  # noqa: E402, F401
import sklearn  # noqa: E402, F401

from lemmax._programs import programs_are_many  # noqa: E402

# A shell starts background jobs with Ctrl-C ignored; the tests of interruptions need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")


@pytest.fixture(autouse=True, scope="module")
def _programs_are_forgotten_before_there_are_too_many():
    # After a file, not after each test: to count them takes a while.
    yield
    if programs_are_many():
        jax.clear_caches()
        gc.collect()
