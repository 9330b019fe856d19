"""Private robust regression."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import column_or_1d

from skdp.erm.losses import Huber, Loss
from skdp.inputs import as_floats, validated
from skdp.linear_model._erm import LinearPrivate
from skdp.linear_model._plan import Data, Plan
from skdp.validation import check_bool, check_bounds, check_real

__all__ = ["DPHuberRegressor"]


class DPHuberRegressor(RegressorMixin, LinearPrivate, BaseEstimator):
    """Linear regression with the Huber loss and differential privacy.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0.
    delta : float, default=1e-6
        Privacy parameter in [0, 1). 0 needs ``method="output"`` or "gradient".
    bounds_y : pair of float, default=(-1, 1)
        Public bounds of the target; values outside are clipped, without a warning,
        since one would tell about the data. Set them: the default fits few targets.
    transition : float, default=0.2
        Error at which the loss becomes linear, at least 0.001, in half widths of
        ``bounds_y``. A smaller one bounds the gradient, and with it the noise, more
        tightly.
    clip_predictions : bool, default=True
        Whether predictions are clipped to ``bounds_y``.
    method, data_norm, C, fit_intercept, intercept_scaling, scale, row_norm, \
n_samples_hint, steps, batches, sampling_rate, clip, step_size, neighboring, \
accountant, random_state, verbose
        As in :class:`DPLogisticRegression`.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
        Coefficients in the user's own units; on mapped rows of norm one for
        ``row_norm="normalize"``.
    intercept_ : float
        Intercept.
    coef_std_ : ndarray
        Standard deviation of the noise on each coefficient; ``method="output"`` only.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring`` for everything that the fit publishes
    (docs, theory of linear models: the bound for losses of either sign). Assumes that
    all parameters, ``bounds_y`` included, are chosen without the private data.

    References
    ----------
    Kifer, Smith and Thakurta (2012). Private convex empirical risk minimization and
    high-dimensional regression.

    Examples
    --------
    >>> from sklearn.datasets import make_regression
    >>> from skdp.linear_model import DPHuberRegressor
    >>> X, y = make_regression(5000, 5, random_state=0)
    >>> model = DPHuberRegressor(epsilon=1.0, bounds_y=(-400, 400)).fit(X, y)
    >>> model.score(X, y) > 0.5
    True
    """

    calibration = "exact"  # a parameter of DPLogisticRegression only

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        method: str = "objective",
        data_norm: float = 1.0,
        bounds_y: tuple[float, float] = (-1, 1),
        transition: float = 0.2,
        C: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        clip_predictions: bool = True,
        scale: str | None = "auto",
        row_norm: str = "clip",
        n_samples_hint: int | None = None,
        steps: int = 100,
        batches: str = "full",
        sampling_rate: float = 0.1,
        clip: float | None = None,
        step_size: float | None = None,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.method = method
        self.data_norm = data_norm
        self.bounds_y = bounds_y
        self.transition = transition
        self.C = C
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.clip_predictions = clip_predictions
        self.scale = scale
        self.row_norm = row_norm
        self.n_samples_hint = n_samples_hint
        self.steps = steps
        self.batches = batches
        self.sampling_rate = sampling_rate
        self.clip = clip
        self.step_size = step_size
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> "DPHuberRegressor":
        """Fit the model, and pay for it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Targets; values outside ``bounds_y`` are clipped.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_bounds(self.bounds_y, "bounds_y")
        check_real(self.transition, "transition", low=1e-3, closed="left")
        check_bool(self.clip_predictions, "clip_predictions")

    def _middle(self) -> tuple[float, float]:
        """Return the middle and the half width of the targets.

        Without an intercept the middle is 0: nothing could add it back.
        """
        low, high = check_bounds(self.bounds_y, "bounds_y")
        if not self.fit_intercept:
            return 0.0, max(abs(low), abs(high))
        return (low + high) / 2, (high - low) / 2

    def _validate(self, X: Any, y: Any) -> Data:
        self._check_parameters()
        X, y = validated(self, X, y, y_numeric=True)
        y = as_floats(column_or_1d(y, warn=True))
        low, high = check_bounds(self.bounds_y, "bounds_y")
        middle, half = self._middle()
        return Data(X, np.clip((np.clip(y, low, high) - middle) / half, -1.0, 1.0))

    def _loss(self, outputs: int) -> tuple[Loss, int]:
        return Huber(self.transition), 1

    def _publish(self, plan: Plan, rows_map: Any, w: Any, std: float | None) -> None:
        super()._publish(plan, rows_map, w, std)
        middle, half = self._middle()
        self.coef_ = half * self.coef_
        self.intercept_ = float(middle + half * self.intercept_)
        if std is not None:
            self.coef_std_ = half * self.coef_std_

    def predict(self, X: Any) -> np.ndarray:
        """Return the prediction for every row.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples,)
            Predictions, within ``bounds_y`` unless ``clip_predictions=False``.
        """
        values = self._scores(X)[:, 0]
        return np.clip(values, *self.bounds_y) if self.clip_predictions else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        # On the 200 rows of scikit-learn's checks, at epsilon 1 and with targets
        # clipped to (-1, 1), the median R2 over seeds is .21 to .57 (objective .49
        # and .57, gradient .21 and .29, output .32 and .46 for the two relations),
        # where .5 is asked for.
        tags.regressor_tags.poor_score = True
        return tags
