"""Private logistic regression."""

from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp.erm.losses import Logistic, Loss, Softmax, undo_margin
from skdp.linear_model._classifier import LinearPrivateClassifier
from skdp.linear_model._plan import Plan
from skdp.linear_model._recipes import LARGEST_MARGIN, chosen_margin
from skdp.validation import check_real

__all__ = ["DPLogisticRegression"]


class DPLogisticRegression(LinearPrivateClassifier, BaseEstimator):
    """Logistic regression with differential privacy.

    Two classes have one vector of coefficients, more classes a softmax.

    Parameters
    ----------
    epsilon : float, default=1.0
        Privacy parameter > 0.
    delta : float, default=1e-6
        Privacy parameter in [0, 1). 0 is pure differential privacy: Laplace noise in
        place of Gaussian, and for ``method="objective"`` two classes only.
    method : {"objective", "output", "gradient"}, default="objective"
        Where the noise goes: into the objective, onto the minimiser, or into every
        gradient step.
    data_norm : float, default=1.0
        Without private scaling, the bound of the L2 norm of a row; longer rows are
        scaled back to it in training. With private scaling, the unit in which the
        features are measured first: their typical size, a guess within a factor of
        three or so.
    C : float, default=None
        Inverse of the regularisation, as in scikit-learn, intercept included. None
        chooses it from public quantities. With private scaling it refers to rows of
        norm one.
    fit_intercept : bool, default=True
        Whether to add a constant column.
    intercept_scaling : float, default=1.0
        Value of the constant column. With private scaling, in thirds of the norm that
        the features get.
    classes : array-like, default=None
        The public set of labels. None reads it from the data, which the guarantee does
        not cover, and warns.
    scale : {"auto", "private"} or None, default="auto"
        Private centring and scaling of the features before the fit, paid from the same
        budget. "auto" does so except for ``method="output"``; None never.
    row_norm : {"clip", "normalize"}, default="clip"
        "clip" shortens long rows in training only, so that ``coef_`` and
        ``intercept_`` are the model. "normalize" scales rows to the same norm, in
        ``predict`` as well (short ones tenfold at most, with private scaling): better
        where features have heavy tails.
    margin : float, default=None
        The loss is log(1 + exp(margin - y f)), margin in [0, 100): a margin makes the
        fit less sensitive to noise, and ``predict_proba`` undoes it. None chooses it
        from the noise level with private scaling, and 0 without.
    calibration : {"exact", "kst", "cms"}, default="exact"
        Noise of ``method="objective"``. "exact" is Theorem A of the docs; "kst" (delta
        > 0) and "cms" (delta = 0) are those of the literature, for comparison; they
        need ``scale=None`` or "auto", which is then off.
    n_samples_hint : int, default=None
        A public guess of the number of rows, for ``neighboring="add_remove"``. More
        than twice as many rows (and more than 65536) are refused; None allows 2**24.
        Ignored under "replace".
    steps : int, default=100
        Number of steps of ``method="gradient"``.
    batches : {"full", "poisson", "disjoint"}, default="full"
        Rows of a gradient step: all of them, a Poisson sample, or one of ``steps``
        disjoint parts.
    sampling_rate : float, default=0.1
        Probability that a row is in a Poisson sample.
    clip : float, default=None
        Bound of the norm of a row's gradient; longer gradients are scaled back. None
        for the bound that always holds, or half of it with private scaling.
    step_size : float, default=None
        Step on the mean gradient, with momentum 0.9; with ``delta=0`` or disjoint
        batches half of it, falling as 1/sqrt(step), without momentum. None for one that
        needs no tuning.
    neighboring : {"replace", "add_remove"}, default="replace"
        What one person can change: "replace", the values of one row, and the number of
        rows is public; "add_remove", one row more or less, and the number is private.
    accountant : BudgetAccountant, default=None
        Budget that pays for every fit.
    random_state : None, int, Generator or RandomState, default=None
        None for secure noise. Anything else is reproducible, and not private against
        those who know it. Other data, folds or parameters get other noise.
    verbose : int, default=0
        Whether to print the gradient steps.

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
    margin_ : float
        Margin of the loss.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring`` for everything that the fit publishes.
    "objective": Theorem A (docs, theory of linear models) with a sliver of noise for
    the solver; "output": sensitivity of the minimiser; "gradient": composition of
    noisy sums. Assumes that all parameters, ``classes`` included, are chosen without
    the private data.

    References
    ----------
    Chaudhuri, Monteleoni and Sarwate (2011). Differentially private empirical risk
    minimization.
    Kifer, Smith and Thakurta (2012). Private convex empirical risk minimization and
    high-dimensional regression.
    Bassily, Smith and Thakurta (2014). Private empirical risk minimization: efficient
    algorithms and tight error bounds.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from skdp.linear_model import DPLogisticRegression
    >>> X, y = make_classification(2000, class_sep=2.0, random_state=0)
    >>> model = DPLogisticRegression(epsilon=1.0, classes=[0, 1]).fit(X, y)
    >>> model.score(X, y) > 0.8
    True
    >>> print(model.privacy_)  # doctest: +ELLIPSIS
    Differentially private with epsilon = 1, delta = 1e-06, when one row is replaced...
    """

    def __init__(
        self,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        method: str = "objective",
        data_norm: float = 1.0,
        C: float | None = None,
        fit_intercept: bool = True,
        intercept_scaling: float = 1.0,
        classes: Any = None,
        scale: str | None = "auto",
        row_norm: str = "clip",
        margin: float | None = None,
        calibration: str = "exact",
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
        self.fit_intercept = fit_intercept
        self.intercept_scaling = intercept_scaling
        self.classes = classes
        self.scale = scale
        self.row_norm = row_norm
        self.margin = margin
        self.calibration = calibration
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

    def fit(self, X: Any, y: Any) -> "DPLogisticRegression":
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
        check_real(self.margin, "margin", low=0, high=100, closed="left", none=True)

    def _loss(self, outputs: int) -> tuple[Loss, int]:
        return (Logistic(), 1) if outputs == 2 else (Softmax(outputs), 1)

    def _with_margin(self, plan: Plan, count: float) -> Loss:
        margin = self.margin
        if margin is None:
            margin = 0.0
            if plan.look == "moments":
                level = self._noise_level(plan, count)
                margin = chosen_margin(level if plan.loss.outputs == 1 else 2 * level)
        self.margin_ = float(margin)
        return replace(plan.loss, margin=self.margin_)

    def _hardest_loss(self, plan: Plan) -> Loss:
        margin = self.margin
        if margin is None:
            margin = LARGEST_MARGIN if plan.look == "moments" else 0.0
        return replace(plan.loss, margin=margin)

    def _targets(self, y: np.ndarray, plan: Plan) -> list[np.ndarray]:
        return [2.0 * y - 1.0] if plan.loss.outputs == 1 else [y]

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the probability of every class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Rows sum to one; columns are in the order of ``classes_``.
        """
        return np.exp(self.predict_log_proba(X))

    def predict_log_proba(self, X: Any) -> np.ndarray:
        """Return the logarithm of the probability of every class.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_classes)
            Columns are in the order of ``classes_``.
        """
        scores = self.decision_function(X)
        if scores.ndim == 1:
            scores = np.column_stack([np.zeros_like(scores), scores])
        shares = undo_margin(scores, self.margin_)
        return shares - np.logaddexp.reduce(shares, axis=1)[:, None]
