"""Linear regression, robust or nonnegative, with many right-hand sides."""

from .api import Regression as Regression
from .api import regress as regress
