"""The robust factor model of noisy tables, ratings and tensors, with the error of every cell."""

from ._fit import Options as Options
from ._held_out import HeldOut as HeldOut
from .model import FactorFit as FactorFit
from .model import FactorModel as FactorModel
from .model import Rows as Rows
from .model import fit_entries as fit_entries
from .model import fit_table as fit_table
from .tensor import TensorFit as TensorFit
from .tensor import fit_tensor as fit_tensor
from .tensor import interval_width as interval_width
from .tensor import normal_widths as normal_widths
