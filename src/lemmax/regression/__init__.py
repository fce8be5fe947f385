"""Linear regression as robust or as nonnegative as needed, many right-hand sides at once."""

from .api import Regression as Regression
from .api import regress as regress
