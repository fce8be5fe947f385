"""Random instances with a known solution; the same seed gives the same instance.

Solvers get ``instance.problem`` and ``instance.x0``; ``instance.truth`` is only for metrics.

Operator, truth, outliers and start are drawn from independent streams of the seed. So instances
that differ only in the condition number, the outliers or the fitted rank have equal operators; to
share the memory, too, pass ``operator=first.problem.operator`` to the next.
"""

from ._parts import Instance as Instance
from ._parts import conditioned_factor as conditioned_factor
from ._parts import corrupt as corrupt
from ._parts import pad_columns as pad_columns
from ._parts import perturb as perturb
from .matrices import low_rank_sensing as low_rank_sensing
from .matrices import matrix_sensing as matrix_sensing
from .matrices import psd_factorisation as psd_factorisation
from .matrices import psd_sensing as psd_sensing
from .nonnegative import nonnegative_least_squares as nonnegative_least_squares
from .tensors import cp_factorisation as cp_factorisation
from .tensors import cp_sensing as cp_sensing
from .tensors import symmetric_cp_factorisation as symmetric_cp_factorisation
from .tensors import symmetric_cp_sensing as symmetric_cp_sensing
