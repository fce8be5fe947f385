"""Models of one's own: parameters with errors, in spite of wrong data."""

from .api import fit as fit
from .result import Fit as Fit
from .result import Interval as Interval
from .result import Prediction as Prediction
from .status import FitStatus as FitStatus
