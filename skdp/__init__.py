"""scikit-learn estimators with differential privacy."""

__version__ = "0.1.0"
