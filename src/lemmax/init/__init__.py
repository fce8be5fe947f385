"""Starting points computed from the data."""

from ._random import random_starts as random_starts
from ._spectral import spectral as spectral
from ._start import Start as Start
