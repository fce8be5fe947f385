"""User models: parameters with standard errors, in spite of outliers."""

from .api import fit as fit
from .many import ManyFits as ManyFits
from .many import fit_many as fit_many
from .result import Fit as Fit
from .result import Interval as Interval
from .result import Prediction as Prediction
from .status import FitStatus as FitStatus
