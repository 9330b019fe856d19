"""scikit-learn estimators with differential privacy."""

from typing import TYPE_CHECKING, Any

from skdp.accounting import BudgetAccountant

if TYPE_CHECKING:
    from skdp.linear_model import DPLogisticRegression, DPRidge
    from skdp.pipeline import check_pipeline
    from skdp.stats import DPMean

__all__ = [
    "BudgetAccountant",
    "DPLogisticRegression",
    "DPMean",
    "DPRidge",
    "__version__",
    "check_pipeline",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # On demand, so that budgets and mechanisms do not wait for scikit-learn.
    if name in ("DPLogisticRegression", "DPRidge"):
        from skdp import linear_model

        return getattr(linear_model, name)
    if name == "DPMean":
        from skdp.stats import DPMean

        return DPMean
    if name == "check_pipeline":
        from skdp.pipeline import check_pipeline

        return check_pipeline
    raise AttributeError(f"module 'skdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
