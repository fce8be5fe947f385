"""What figures 5 and 6 share: LMM, Gauss-Newton and the subgradient method, geometric steps."""

import lemmax as lm

METHODS = ("LMM", "Gauss-Newton", "subgradient")


def geometric_method(
    name: str, first_step: float, decay: float, damping: float
) -> lm.methods.AbstractMethod:
    """Configuration 2: steps ``first_step * decay**k``, and for LMM dampings alike."""
    steps = lm.steps.Geometric(first_step, decay)
    if name == "LMM":
        return lm.methods.lmm(steps, lm.damping.Geometric(damping, decay))
    if name == "Gauss-Newton":
        return lm.methods.gauss_newton(steps)
    return lm.methods.subgradient(steps)
