"""Tests and doctests run in float64, with implicit promotion of dtypes and ranks forbidden."""

import signal

import jax

# A shell starts background jobs with Ctrl-C ignored; the tests of interruptions need it.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
