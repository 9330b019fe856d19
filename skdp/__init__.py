"""scikit-learn estimators with differential privacy."""

from skdp.accounting import BudgetAccountant

__all__ = ["BudgetAccountant", "__version__"]

__version__ = "0.1.0"
