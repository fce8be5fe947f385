"""The robust factor model of noisy tables and ratings, with the error of every cell."""

from ._fit import Options as Options
from ._held_out import HeldOut as HeldOut
from .model import FactorFit as FactorFit
from .model import FactorModel as FactorModel
from .model import Rows as Rows
from .model import fit_entries as fit_entries
from .model import fit_table as fit_table
