"""scikit-learn estimators for data with missing entries and outliers.

They need the extra ``estimators``: ``pip install 'lemmax[estimators]'``.
"""

from typing import TYPE_CHECKING

from .._lazy import lazy

try:
    import sklearn as _sklearn  # noqa: F401
except ImportError as error:
    raise ImportError(
        "lemmax.estimators needs scikit-learn: pip install 'lemmax[estimators]'."
    ) from error

if TYPE_CHECKING:
    from ._report import TableReport as TableReport
    from .cp import CPDecomposition as CPDecomposition
    from .matrix_completion import MatrixCompletion as MatrixCompletion
    from .model_regressor import ModelRegressor as ModelRegressor
    from .nonnegative_regression import NonnegativeRegression as NonnegativeRegression
    from .robust_pca import RobustPCA as RobustPCA
    from .sensing import BlindDeconvolution as BlindDeconvolution
    from .sensing import MatrixSensing as MatrixSensing
    from .sensing import PhaseRetrieval as PhaseRetrieval
else:
    __getattr__, __dir__, __all__ = lazy(
        __name__,
        {
            "_report": ("TableReport",),
            "cp": ("CPDecomposition",),
            "matrix_completion": ("MatrixCompletion",),
            "model_regressor": ("ModelRegressor",),
            "nonnegative_regression": ("NonnegativeRegression",),
            "robust_pca": ("RobustPCA",),
            "sensing": (
                "BlindDeconvolution",
                "MatrixSensing",
                "PhaseRetrieval",
            ),
        },
    )
