"""One call, no tuning: recovery from data alone."""

from .api import recover as recover
from .found import Recovery as Recovery
from .found import RecoveryStatus as RecoveryStatus
