"""The theory of the method in numbers: constants, predictions, and checks of runs.

Everything here may use the true solution, which solvers never see. References such as "Theorem 4.1"
are to the paper of Díaz, Jiang and Labassi. Where a printed constant is wrong, the corrected one is
used and the docstring says so.
"""

from ._verdicts import Violation as Violation
from .alignment import Alignment as Alignment
from .alignment import strong_alignment as strong_alignment
from .alignment import weak_alignment as weak_alignment
from .check import Verdict as Verdict
from .check import check as check
from .constants import OuterConstants as OuterConstants
from .constants import jacobian_lipschitz as jacobian_lipschitz
from .constants import outer_constants as outer_constants
from .isometry import Isometry as Isometry
from .isometry import estimate_isometry as estimate_isometry
from .measure import MeasuredAlignment as MeasuredAlignment
from .measure import dense_jacobian as dense_jacobian
from .measure import measure_alignment as measure_alignment
from .one_step import OneStep as OneStep
from .one_step import one_step as one_step
from .oracle import ProportionalToError as ProportionalToError
from .predict import Prediction as Prediction
from .predict import predict as predict
from .trajectory import Trajectory as Trajectory
from .trajectory import follow as follow
