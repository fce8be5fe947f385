"""Laws that every operator, loss and map obeys, as checks to run on one's own.

Each check raises an AssertionError with a sentence that gives the numbers, and returns nothing
if all is well. They work in float64, whatever JAX's x64 mode is.
"""

from .losses import check_loss as check_loss
from .maps import check_map as check_map
from .operators import check_covector as check_covector
from .operators import check_operator as check_operator
