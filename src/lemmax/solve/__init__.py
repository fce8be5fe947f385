"""The loop, its stopping rules, trace and result."""

from .api import Snapshot as Snapshot
from .api import iterate as iterate
from .api import solve as solve
from .compare import Comparison as Comparison
from .compare import compare as compare
from .many import BatchSnapshot as BatchSnapshot
from .many import Run as Run
from .many import solve_many as solve_many
from .result import Result as Result
from .stopping import Stopping as Stopping
from .trace import Trace as Trace
