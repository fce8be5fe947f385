"""Draw the plots of these pages: each family of methods compared with LMM on small problems.

Run with ``python docs/methods/pictures.py``; about three minutes.
"""

import pathlib

import lemmax as lm
from lemmax.experiments.instances import low_rank_sensing, psd_factorisation, psd_sensing

FOLDER = pathlib.Path(__file__).parent
ERROR = "relative error"
square, over = lm.losses.SquaredL2(), {"rank": 5, "condition": 100.0}


def draw(name, instance, methods, max_steps, tol):
    comparison = lm.compare(
        instance.problem,
        {"LMM": lm.methods.lmm(), **methods},
        instance.x0,
        max_steps=max_steps,
        tol=tol,
        metrics={ERROR: instance.error},
    )
    lm.plots.compare(comparison, ERROR).savefig(FOLDER / f"{name}.png", dpi=80)
    print(f"\n{name}.png: {comparison.problem}")
    for row in comparison.table(ERROR, accuracy=1e-10):
        taken = (row["steps_to_accuracy"], row["passes_to_accuracy"])
        print(f"{row['method']:24} best error {row['best']:.1e}; steps, passes to 1e-10: {taken}")


def main():
    smooth = low_rank_sensing(0, shape=(40, 40), measurements=800, loss=square, **over)
    nonsmooth = low_rank_sensing(0, shape=(40, 40), measurements=800, **over)
    exact = psd_sensing(0, dim=30, rank=2, measurements=240, condition=100.0)
    symmetric = psd_sensing(0, dim=30, measurements=600, **over)
    corrupted = psd_sensing(0, dim=30, measurements=1200, outliers=0.1, **over)
    draw(
        "scaled",
        smooth,
        {
            "ScaledGD": lm.methods.scaled_gd(),
            "ScaledGD(λ)": lm.methods.scaled_gd_damped(),
            "PrecGD†": lm.methods.prec_gd_asymmetric(),
        },
        500,
        1e-24,
    )
    draw(
        "scaled_subgradient",
        nonsmooth,
        {
            "ScaledSM": lm.methods.scaled_subgradient(),
            "OPSA": lm.methods.rebalanced(lm.methods.opsa()),
            "OPSA, λ=1e-2": lm.methods.opsa(1e-2),
        },
        500,
        1e-12,
    )
    draw(
        "alternating",
        smooth,
        {"AGN": lm.methods.approximate_gauss_newton(), "APGD†": lm.methods.apgd()},
        500,
        1e-24,
    )
    draw(
        "few_passes",
        exact,
        {
            "prox-linear": lm.methods.prox_linear(target=0.0),
            "SuperPolyak": lm.methods.super_polyak(),
        },
        400,
        1e-12,
    )
    draw(
        "few_passes_over",
        symmetric,
        {"prox-linear": lm.methods.prox_linear(target=0.0)},
        400,
        1e-12,
    )
    geometric = lm.methods.lmm(lm.steps.Geometric(1e-3, 0.95), lm.damping.Geometric(1e-3, 0.95))
    draw(
        "outliers",
        corrupted,
        {
            "LMM": geometric,
            "restarted Gauss-Newton": lm.methods.restarted(lm.methods.gauss_newton()),
            "prox-linear": lm.methods.prox_linear(),
        },
        1500,
        1e-12,
    )
    draw(
        "gauss_newton",
        psd_factorisation(0, dim=50, rank=3, redundant_scale=1e-4),
        {"Gauss-Newton": lm.methods.gauss_newton(), "subgradient": lm.methods.polyak_subgradient()},
        50,
        0.0,
    )


if __name__ == "__main__":
    main()
