"""Tests and doctests run in float64, with implicit promotion of dtypes and ranks forbidden."""

import jax

jax.config.update("jax_enable_x64", True)
jax.config.update("jax_numpy_dtype_promotion", "strict")
jax.config.update("jax_numpy_rank_promotion", "raise")
