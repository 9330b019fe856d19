"""Private bins."""

from functools import partial
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.inputs import feature_bounds, validated
from skdp.preprocessing._base import (
    Plan,
    PrivateTransformer,
    Table,
    as_rows,
    input_names,
    price_each,
)
from skdp.preprocessing._norms import box_norm
from skdp.preprocessing._one_hot import codes_of, indicators
from skdp.stats._quantile_core import Grid, recursive_event, release_recursive
from skdp.stats._quantile_joint import (
    LEAST_EPSILON,
    MOST_QUANTILES,
    joint_event,
    release_joint,
)
from skdp.validation import check_integer, check_option

__all__ = ["DPKBinsDiscretizer"]

_CELLS = 2**20  # of the public grid on which the edges lie
_ENCODINGS = ("onehot", "onehot-dense", "ordinal")


class DPKBinsDiscretizer(PrivateTransformer, BaseEstimator):
    """Bin continuous features, with private or public edges.

    Parameters
    ----------
    n_bins : int, default=5
        Number of bins >= 2 of every feature.
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=0.0
        Privacy parameter in [0, 1). 0 is pure differential privacy; a positive delta
        helps where there are many features.
    bounds : pair, default=(-1, 1)
        Public bounds of the values, numbers or one for each feature: the outermost
        edges.
    encode : {"onehot", "onehot-dense", "ordinal"}, default="onehot"
        Indicator columns as CSR or as an array, or the number of the bin.
    strategy : {"quantile", "uniform"}, default="quantile"
        "quantile": bins with about as many rows each, by private quantiles. "uniform":
        bins of equal width between the bounds, which costs nothing.
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
    bin_edges_ : ndarray of shape (n_features,), of ndarrays
        Edges of each feature, from one bound to the other.
    n_bins_ : ndarray of int of shape (n_features,)
        Bins of each feature: equal edges are merged.
    output_norm_ : float
        Bound of the norm of every row that ``transform`` returns.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``. The edges of a feature are private
    quantiles, up to nine of them released jointly by one exponential mechanism, more
    of them in turn (docs, theory of preprocessing). ``strategy="uniform"`` reads
    nothing and spends nothing. ``transform`` is free. Assumes that the bounds are
    chosen without the private data.

    References
    ----------
    Gillenwater, Joseph and Kulesza (2021). Differentially private quantiles.
    Kaplan, Schnapp and Stemmer (2022). Differentially private approximate quantiles.

    Examples
    --------
    >>> import numpy as np
    >>> from skdp.preprocessing import DPKBinsDiscretizer
    >>> ages = np.random.default_rng(0).integers(18, 90, size=(2000, 1))
    >>> bins = DPKBinsDiscretizer(4, epsilon=1.0, bounds=(0, 120), encode="ordinal")
    >>> codes = bins.fit_transform(ages)
    >>> bool(30 < bins.bin_edges_[0][1] < 42)
    True
    >>> uniform = DPKBinsDiscretizer(4, bounds=(0, 120), strategy="uniform").fit(ages)
    >>> uniform.bin_edges_[0]
    array([  0.,  30.,  60.,  90., 120.])
    >>> print(uniform.privacy_)
    Nothing was read from the data but its number of features: no privacy was spent.
    """

    def __init__(
        self,
        n_bins: int = 5,
        epsilon: float = 1.0,
        delta: float = 0.0,
        *,
        bounds: Any = (-1, 1),
        encode: str = "onehot",
        strategy: str = "quantile",
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.n_bins = n_bins
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.encode = encode
        self.strategy = strategy
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    # --- Public quantities

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_integer(self.n_bins, "n_bins", low=2, high=2**12)
        check_option(self.encode, "encode", _ENCODINGS)
        check_option(self.strategy, "strategy", ("quantile", "uniform"))

    def _is_public(self) -> bool:
        return self.strategy == "uniform"

    def _is_exact(self) -> bool:
        return True

    def _joint(self, n_features: int) -> bool:
        """Whether the edges of a feature are released together; from public numbers."""
        few = self.n_bins - 1 <= MOST_QUANTILES
        return few and self.epsilon / n_features >= LEAST_EPSILON

    def _price(self, each: float, joint: bool) -> events.Event:
        if joint:
            return joint_event(each, self.neighboring)
        return recursive_event(self.n_bins - 1, each, self.neighboring)

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        self._check_budget()
        self._check_parameters()
        feature_bounds(self.bounds, n_features)
        joint = self._joint(n_features)
        price = partial(self._price, joint=joint)
        each, event = price_each(n_features, self.epsilon, self.delta, price)
        return Plan((each, joint), event, (n_samples, n_features))

    # --- The fit

    def _validate(self, X: Any, y: Any = None) -> Table:
        self._check_parameters()
        return Table(validated(self, X, accept_sparse=False))

    def _fit_public(self, X: Any) -> None:
        X = self._validate(X).X
        low, high = feature_bounds(self.bounds, X.shape[1])
        self._publish(np.linspace(low, high, self.n_bins + 1).T)

    def _release(self, plan: Plan, data: Table, bits: Any, sampling: Any) -> None:
        low, high = feature_bounds(self.bounds, data.X.shape[1])
        each, joint = plan.release
        release = release_joint if joint else release_recursive
        qs = np.arange(1, self.n_bins) / self.n_bins
        edges = []
        for j in range(low.size):
            grid = Grid(float(low[j]), float(high[j]), _CELLS)
            column = data.X[:, j].astype(np.float64)
            inner = release(column, qs, grid, each, self.neighboring, bits)
            edges.append(np.concatenate(([low[j]], inner, [high[j]])))
        self._publish(edges)

    def _publish(self, edges: Any) -> None:
        """Set what follows from released and public numbers."""
        self.bin_edges_ = np.empty(len(edges), dtype=object)
        for j, one in enumerate(edges):
            self.bin_edges_[j] = np.unique(one)
        self.n_bins_ = np.array([one.size - 1 for one in self.bin_edges_])
        most = 1 if self.encode != "ordinal" else self.n_bins_ - 1
        self.output_norm_ = box_norm(0, most, len(edges))

    # --- Rows

    def transform(self, X: Any) -> Any:
        """Return the bins of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows. Values outside the bounds are in the outermost bins.

        Returns
        -------
        ndarray or CSR
            Of shape (n_samples, n_features) for ``encode="ordinal"``, otherwise with a
            column for every bin.
        """
        check_is_fitted(self)
        X = validated(self, X, accept_sparse=False, reset=False)
        codes = np.empty(X.shape, dtype=np.int64)
        for j, edges in enumerate(self.bin_edges_):
            inner = edges[1:-1].astype(X.dtype)
            codes[:, j] = np.searchsorted(inner, X[:, j], side="right")
        if self.encode == "ordinal":
            return codes.astype(X.dtype)
        found = indicators(codes, self.n_bins_).astype(X.dtype)
        return found if self.encode == "onehot" else found.toarray()

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the centres of the bins.

        Parameters
        ----------
        X : array-like or sparse
            What ``transform`` returns.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        if self.encode == "ordinal":
            codes = np.rint(as_rows(self, X)).astype(np.int64)
        else:
            width = int(self.n_bins_.sum())
            X = as_rows(self, X, width, accept_sparse="csr")
            codes = codes_of(X, self.n_bins_)
        if np.any(codes < 0) or np.any(codes >= self.n_bins_):
            raise ValueError("Some rows name no bin.")
        centres = [(edges[1:] + edges[:-1]) / 2 for edges in self.bin_edges_]
        columns = zip(centres, codes.T, strict=True)
        return np.column_stack([middle[code] for middle, code in columns])

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input features, where X had none.

        Returns
        -------
        ndarray of str
            The input's for ``encode="ordinal"``; otherwise with the bin appended.
        """
        check_is_fitted(self, "n_features_in_")
        names = input_names(self, input_features)
        if self.encode == "ordinal":
            return names
        pairs = zip(names, self.n_bins_, strict=True)
        found = [f"{name}_{float(i)}" for name, size in pairs for i in range(size)]
        return np.array(found, dtype=object)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
