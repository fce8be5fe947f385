"""Law checks for operators, losses and maps, including your own.

Each check raises an AssertionError whose message has the numbers, and returns nothing if the laws
hold. Checks work in float64, in either x64 mode.
"""

from .losses import check_loss as check_loss
from .maps import check_map as check_map
from .operators import check_covector as check_covector
from .operators import check_operator as check_operator
