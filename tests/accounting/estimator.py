"""A small private estimator, for tests that need one."""

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin, TransformerMixin
from sklearn.utils.validation import check_is_fitted, validate_data

from skdp.events import Approximate
from skdp.mechanisms import Laplace
from skdp.validation import check_bounds

__all__ = ["DPColumnMean"]


class DPColumnMean(TransformerMixin, RegressorMixin, BaseEstimator):
    """Release the mean of each column; centre by it, or predict the first one.

    With a ``delta`` the release is recorded as one that needs it.
    """

    def __init__(
        self,
        epsilon=0.1,
        delta=0.0,
        bounds=(0.0, 1.0),
        accountant=None,
        random_state=None,
    ):
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.accountant = accountant
        self.random_state = random_state

    def fit(self, X, y=None):
        X = validate_data(self, X, dtype=np.float64)
        low, high = check_bounds(self.bounds)
        n_samples, n_features = X.shape
        means = np.clip(X, low, high).mean(axis=0)
        mechanism = Laplace(self.epsilon, n_features * (high - low) / n_samples)
        event = mechanism.event
        if self.delta:
            event = Approximate(self.epsilon, self.delta)
        if self.accountant is not None:
            seeded = self.random_state is not None
            self.accountant.spend(event, label=type(self).__name__, seeded=seeded)
        self.mean_ = mechanism.release(means, self.random_state)
        return self

    def transform(self, X):
        check_is_fitted(self)
        return validate_data(self, X, dtype=np.float64, reset=False) - self.mean_

    def predict(self, X):
        check_is_fitted(self)
        X = validate_data(self, X, dtype=np.float64, reset=False)
        return np.full(len(X), self.mean_[0])
