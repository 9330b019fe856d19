"""Private linear support vector classification."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.erm.losses import Loss, SmoothedHinge
from skdp.linear_model._classifier import LinearPrivateClassifier
from skdp.linear_model._plan import Plan
from skdp.validation import check_real

__all__ = ["DPLinearSVC"]


class DPLinearSVC(LinearPrivateClassifier, BaseEstimator):
    """Linear support vector machine with differential privacy.

    The hinge loss has its corner rounded, since the proofs need a second derivative.
    More than two classes are one problem each, against all the others; the problems
    share the budget.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0.
    delta : float, default=1e-6
        Privacy parameter in [0, 1). 0 needs ``method="output"`` or "gradient".
    hinge_width : float, default=0.5
        Half width of the rounded corner, in [0.001, 1]. A wider one needs less
        regularisation for ``method="objective"``.
    method, data_norm, C, fit_intercept, intercept_scaling, classes, scale, row_norm, \
n_samples_hint, steps, batches, sampling_rate, clip, step_size, neighboring, \
accountant, random_state, verbose
        As in :class:`DPLogisticRegression`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels.
    coef_ : ndarray of shape (1, n_features) or (n_classes, n_features)
        Coefficients in the user's own units; on mapped rows of norm one for
        ``row_norm="normalize"``.
    intercept_ : ndarray of shape (1,) or (n_classes,)
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
    (docs, theory of linear models: the bound for losses whose derivative has one
    sign). Assumes that all parameters are chosen without the private data.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical risk
    minimization.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdp.linear_model import DPLinearSVC
    >>> X, y = make_classification(2000, class_sep=2.0, random_state=0)
    >>> DPLinearSVC(epsilon=1.0, classes=[0, 1]).fit(X, y).score(X, y) > 0.8
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
        C: float | None = None,
        hinge_width: float = 0.5,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        classes: Any = None,
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
        self.C = C
        self.hinge_width = hinge_width
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
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

    def fit(self, X: Any, y: Any) -> "DPLinearSVC":
        """Fit the model, and pay for it.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.
        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        self
        """
        return self._fit(X, y)

    def _check_parameters(self) -> None:
        super()._check_parameters()
        # A sharper corner would need a solver for kinks.
        check_real(self.hinge_width, "hinge_width", low=1e-3, high=1, closed="both")

    def _loss(self, outputs: int) -> tuple[Loss, int]:
        return SmoothedHinge(self.hinge_width), 1 if outputs == 2 else outputs

    def _targets(self, y: np.ndarray, plan: Plan) -> list[np.ndarray]:
        if plan.problems == 1:
            return [2.0 * y - 1.0]
        return [np.where(y == code, 1.0, -1.0) for code in range(plan.problems)]
