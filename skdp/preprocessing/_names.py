"""Names of input features, with scikit-learn's rules."""

from typing import Any

import numpy as np
from sklearn.base import OneToOneFeatureMixin

__all__ = ["input_names"]


def input_names(estimator: Any, input_features: Any) -> np.ndarray:
    """Return the names: those given, those of the data, or x0, x1, ..."""
    return OneToOneFeatureMixin.get_feature_names_out(estimator, input_features)
