"""The compiled loop; for methods that run in Python, single steps."""

from jaxtyping import Array

from .._programs import compiled
from .._typing import Parameters
from ..problem import Composite
from .loop import Carry, Plan, advance, advance_on_host, start, visit

_start = compiled(start)
_advance = compiled(advance)
_visit = compiled(visit)
_evaluate = compiled(Composite.evaluate)


def start_compiled(plan: Plan, x0: Parameters, rows: int) -> Carry:
    """The state before the first evaluation."""
    return (start if plan.method.on_host else _start)(plan, x0, rows)


def advance_compiled(plan: Plan, carry: Carry, limit: Array) -> Carry:
    """Evaluate and move until the run ends or iterate number ``limit`` is reached."""
    if plan.method.on_host:
        return advance_on_host(plan, carry, limit, _evaluate)
    return _advance(plan, carry, limit)


def visit_compiled(plan: Plan, carry: Carry) -> Carry:
    """Evaluate one iterate and move."""
    if plan.method.on_host:
        return advance_on_host(plan, carry, carry.state.step + 1, _evaluate)
    return _visit(plan, carry)
