"""Private quantiles."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from skdp import events
from skdp.noise import RandomBits
from skdp.stats._quantile_base import Quantiles
from skdp.stats._quantile_core import (
    Grid,
    equal_share,
    recursive_event,
    release_quantile,
    release_recursive,
    single_event,
)
from skdp.stats._quantile_joint import (
    LEAST_EPSILON,
    MOST_CELLS,
    MOST_QUANTILES,
    joint_event,
    release_joint,
)
from skdp.stats._sums import as_table
from skdp.validation import check_option

__all__ = ["DPQuantile", "quantile"]

_JOINT = 5  # up to so many quantiles together are found jointly by default
_METHODS = ("auto", "exponential", "joint", "recursive")


class DPQuantile(Quantiles, BaseEstimator):
    """Quantiles of every feature, with differential privacy.

    The exponential mechanism chooses among the points of a public grid, the better the
    nearer their rank is. Several quantiles are found together, and come ordered.

    Parameters
    ----------
    q : float or list of float, default=0.5
        Probabilities in [0, 1].
    epsilon : float, default=1.0
        Privacy parameter > 0, for all quantiles and features together.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature; values outside
        are clipped, without a warning, since one would tell about the data. Set them:
        the default fits few data.
    method : {"auto", "exponential", "joint", "recursive"}, default="auto"
        "exponential" finds each quantile by itself; "joint" (JointExp) finds up to 9
        together; "recursive" halves the data at quantiles found before. "auto" takes
        "joint" for 2 to 5 and "recursive" for more.
    resolution : float, default=None
        Distance of the points of the public grid. None for 2**20 equal steps between
        the bounds. Take 1 for whole numbers.
    confidence : float, default=None
        Also release what :meth:`interval` needs for this confidence, with half of the
        budget.
    missing : {"error", "drop"}, default="error"
        What to do with NaN. "drop" leaves it out, feature by feature, and treats the
        number of valid values as private.
    n_samples_hint : int, default=None
        For ``confidence``, where the number of values is private: a public guess of
        it, at most twice too large.
    neighboring : {"replace", "add_remove"}, default="replace"
        What one person can change: "replace", the values of one row, and the number of
        rows is public; "add_remove", one row more or less, and the number is private.
    accountant : BudgetAccountant, default=None
        Budget that pays for every fit.
    random_state : None, int, Generator or RandomState, default=None
        None for secure noise. Anything else is reproducible, and not private against
        those who know it.

    Attributes
    ----------
    quantiles_ : ndarray of shape (n_features,) or (n_quantiles, n_features)
        Noisy quantiles, within the bounds, in the order of ``q``.
    bounds_ : ndarray of shape (2, n_features)
        The bounds used.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    epsilon-DP under ``neighboring``, pure (docs, theory of quantiles). How large the
    noise is depends on the data, so there is no ``standard_error_``. Assumes that the
    bounds and the resolution are chosen without the private data.

    References
    ----------
    Smith (2011). Privacy-preserving statistical estimation with optimal convergence
    rates.
    Gillenwater, Joseph and Kulesza (2021). Differentially private quantiles.
    Kaplan, Schnapp and Stemmer (2022). Differentially private approximate quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.stats import DPQuantile
    >>> X = np.random.default_rng(0).uniform(0, 100, size=(2000, 1))
    >>> model = DPQuantile([0.25, 0.5, 0.75], epsilon=1.0, bounds=(0, 100)).fit(X)
    >>> bool(np.all(np.abs(model.quantiles_[:, 0] - [25, 50, 75]) < 8))
    True
    """

    _value = "quantiles_"
    delta = 0.0

    def __init__(
        self,
        q: Any = 0.5,
        epsilon: float = 1.0,
        *,
        bounds: Any = (-1, 1),
        method: str = "auto",
        resolution: float | None = None,
        confidence: float | None = None,
        missing: str = "error",
        n_samples_hint: int | None = None,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.q = q
        self.epsilon = epsilon
        self.bounds = bounds
        self.method = method
        self.resolution = resolution
        self.confidence = confidence
        self.missing = missing
        self.n_samples_hint = n_samples_hint
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    def _levels(self) -> np.ndarray:
        try:
            levels = np.atleast_1d(np.asarray(self.q, dtype=float))
            good = levels.ndim == 1 and levels.size and (abs(levels - 0.5) <= 0.5).all()
        except (TypeError, ValueError):
            good = False
        if not good:
            raise ValueError(
                "The 'q' parameter must be a number in [0, 1], or a list of them. "
                f"Got {self.q!r}."
            )
        return levels

    def _check_parameters(self) -> None:
        check_option(self.method, "method", _METHODS)
        count = self._levels().size
        if self.method == "joint" and count > MOST_QUANTILES:
            raise ValueError(
                f"method='joint' finds up to {MOST_QUANTILES} quantiles. "
                f"Got {count}; use method='recursive'."
            )
        super()._check_parameters()

    def _way(self, epsilon: float, grid: Grid) -> str:
        """Return the method for the quantiles without repetition."""
        count = np.unique(self._levels()).size
        if count == 1 or self.method == "exponential":
            return "exponential"
        if self.method != "auto":
            return self.method
        possible = epsilon >= LEAST_EPSILON and grid.cells <= MOST_CELLS
        return "joint" if count <= _JOINT and possible else "recursive"

    def _point_event(self, epsilon: float, delta: float, grid: Grid) -> events.Event:
        count, way = np.unique(self._levels()).size, self._way(epsilon, grid)
        if way == "joint":
            if grid.cells > MOST_CELLS:
                raise ValueError(
                    "The 'resolution' parameter must give at most 2**24 points between "
                    f"the bounds for method='joint'. Got {self.resolution!r}; use "
                    "method='recursive'."
                )
            return joint_event(epsilon, self.neighboring)
        if way == "recursive":
            return recursive_event(count, epsilon, self.neighboring)
        part = single_event(equal_share(epsilon, count), self.neighboring)
        return part if count == 1 else events.Composed((part,), (count,))

    def _release_points(
        self,
        values: np.ndarray,
        grid: Grid,
        epsilon: float,
        n_features: int,
        bits: RandomBits,
    ) -> np.ndarray:
        levels, places = np.unique(self._levels(), return_inverse=True)
        way, price = self._way(epsilon, grid), (epsilon, self.neighboring, bits)
        if way == "joint":
            found = release_joint(values, levels, grid, *price)
        elif way == "recursive":
            found = release_recursive(values, levels, grid, *price)
        else:
            each = equal_share(epsilon, levels.size)
            price = (each, self.neighboring, bits)
            found = [release_quantile(values, q, grid, *price) for q in levels]
        return np.sort(found)[places]

    def _publish(self, points: np.ndarray) -> None:
        self.quantiles_ = points[0] if np.ndim(self.q) == 0 else points

    def predict(self, X: Any) -> np.ndarray:
        """Return the released quantiles for every row, as a baseline would.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; only their number counts.

        Returns
        -------
        ndarray
            Of shape (n_samples, n_features), or (n_samples, n_quantiles, n_features).
        """
        first = super().predict(X)
        if self.quantiles_.ndim == 1:
            return first
        return np.tile(self.quantiles_, (len(first) // len(self.quantiles_), 1, 1))


def quantile(
    x: Any,
    q: Any,
    epsilon: float = 1.0,
    *,
    bounds: Any,
    method: str = "auto",
    resolution: float | None = None,
    missing: str = "error",
    neighboring: str = "replace",
    accountant: Any = None,
    random_state: Any = None,
) -> Any:
    """Return quantiles of a 1-D array, with differential privacy.

    Parameters
    ----------
    x : array-like of shape (n_samples,)
        Numbers. The other parameters are those of :class:`DPQuantile`, without
        ``confidence``: a float has no interval.

    Returns
    -------
    float or ndarray
        Like ``q``.

    Examples
    --------
    >>> from skdp import stats
    >>> stats.quantile(range(1000), [0.25, 0.75], bounds=(0, 1000)).shape
    (2,)
    """
    model = DPQuantile(
        q,
        epsilon,
        bounds=bounds,
        method=method,
        resolution=resolution,
        missing=missing,
        neighboring=neighboring,
        accountant=accountant,
        random_state=random_state,
    )
    found = model.fit(as_table(x)).quantiles_[..., 0]
    return float(found) if np.ndim(q) == 0 else found
