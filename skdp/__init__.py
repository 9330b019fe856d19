"""scikit-learn estimators with differential privacy."""

from typing import TYPE_CHECKING, Any

from skdp.accounting import BudgetAccountant

if TYPE_CHECKING:
    from skdp.linear_model import DPLogisticRegression, DPRidge

__all__ = ["BudgetAccountant", "DPLogisticRegression", "DPRidge", "__version__"]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    # On demand, so that budgets and mechanisms do not wait for scikit-learn.
    if name in ("DPLogisticRegression", "DPRidge"):
        from skdp import linear_model

        return getattr(linear_model, name)
    raise AttributeError(f"module 'skdp' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
