"""Indicator columns of public categories, or of categories found privately."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted

from skdp import events
from skdp.categories import (
    as_categories,
    check_categories,
    column_counts,
    encoded,
    validate_cells,
)
from skdp.preprocessing._base import (
    Cells,
    Plan,
    PrivateTransformer,
    as_rows,
    input_names,
)
from skdp.preprocessing._discovery import plan_discovery
from skdp.preprocessing._norms import box_norm
from skdp.preprocessing._one_hot import codes_of, indicators
from skdp.validation import check_bool, check_option

__all__ = ["DPOneHotEncoder"]


class DPOneHotEncoder(PrivateTransformer, BaseEstimator):
    """Encode categories as indicator columns.

    With public ``categories`` it costs nothing, and that is the better way. Without
    them the values that many rows share are found privately; rare values, which would
    give a person away, are encoded as all zeros.

    Parameters
    ----------
    categories : list of lists, default=None
        Public categories of every feature: text or numbers. None finds them.
    epsilon : float, default=1.0
        Privacy parameter > 0, for all features together.
    delta : float, default=1e-6
        Privacy parameter in [0, 1). Finding categories needs a positive one, far below
        one over the number of rows.
    handle_unknown : {"ignore", "error"}, default="ignore"
        What ``transform`` does with values that are no category, missing ones
        included: zeros, or an error that does not quote them. "error" needs public
        categories.
    sparse_output : bool, default=True
        Whether ``transform`` returns CSR or an array.
    neighboring : {"replace", "add_remove"}, default="replace"
        What one person can change: "replace", the values of one row, and the number of
        rows is public; "add_remove", one row more or less, and the number is private.
    accountant : BudgetAccountant, default=None
        Budget that pays for every fit that finds categories.
    random_state : None, int, Generator or RandomState, default=None
        None for secure noise. Anything else is reproducible, and not private against
        those who know it.

    Attributes
    ----------
    categories_ : list of ndarrays
        Categories of every feature: the public ones as given, those found in order.
    threshold_ : int or None
        Values with a noisy count below it are not found; None for public categories.
    output_norm_ : float
        Bound of the norm of every row that ``transform`` returns: the root of the
        number of features.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        What the fit guarantees; prints as a sentence.

    Guarantee
    ---------
    (epsilon, delta)-DP under ``neighboring``: of the values that occur, those are
    published whose count plus discrete Laplace noise reaches a threshold. A value of
    one row only is published with probability at most ``delta / n_features`` (half of
    it under "replace"); the proof is in the docs, theory of preprocessing. With public
    categories nothing is read and nothing is spent. ``transform`` is free.

    References
    ----------
    Korolova, Kenthapadi, Mishra and Ntoulas (2009). Releasing search queries and clicks
    privately.
    Wilson, Zhang, Lam, Desfontaines, Simmons-Marengo and Gipson (2020). Differentially
    private SQL with bounded user contribution.

    Examples
    --------
    >>> from skdp.preprocessing import DPOneHotEncoder
    >>> colours = [["red"]] * 500 + [["blue"]] * 400 + [["my own mix"]]
    >>> encoder = DPOneHotEncoder(epsilon=1.0, sparse_output=False).fit(colours)
    >>> encoder.categories_
    [array(['blue', 'red'], dtype=object)]
    >>> encoder.transform([["red"], ["my own mix"]])
    array([[0., 1.],
           [0., 0.]])
    >>> print(DPOneHotEncoder(categories=[["blue", "red"]]).fit(colours).privacy_)
    Nothing was read from the data but its number of features: no privacy was spent.
    """

    def __init__(
        self,
        categories: Any = None,
        epsilon: float = 1.0,
        delta: float = 1e-6,
        *,
        handle_unknown: str = "ignore",
        sparse_output: bool = True,
        neighboring: str = "replace",
        accountant: Any = None,
        random_state: Any = None,
    ) -> None:
        self.categories = categories
        self.epsilon = epsilon
        self.delta = delta
        self.handle_unknown = handle_unknown
        self.sparse_output = sparse_output
        self.neighboring = neighboring
        self.accountant = accountant
        self.random_state = random_state

    # --- Public quantities

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_option(self.handle_unknown, "handle_unknown", ("ignore", "error"))
        check_bool(self.sparse_output, "sparse_output")
        if self.categories is not None:
            check_categories(self.categories)
            return
        if self.handle_unknown == "error":
            raise ValueError(
                "handle_unknown='error' needs public 'categories': rare values are "
                "never found. Got categories=None."
            )
        if self.delta == 0:
            raise ValueError(
                "Finding categories needs delta > 0. Got delta=0. Give public "
                "'categories', or a delta far below one over the number of rows, such "
                "as 1e-6."
            )

    def _is_public(self) -> bool:
        return self.categories is not None

    def _plan(self, n_samples: int, n_features: int) -> Plan:
        self._check_budget()
        self._check_parameters()
        price = self.epsilon / n_features, self.delta / n_features
        discovery = plan_discovery(*price, self.neighboring)
        event = discovery.event
        if n_features > 1:
            event = events.Composed((event,), (n_features,))
        return Plan(discovery, event, (n_samples, n_features))

    def _is_exact(self) -> bool:
        return True

    def _chosen(self) -> str:
        return ""

    # --- The fit

    def _validate(self, X: Any, y: Any = None) -> Cells:
        self._check_parameters()
        return Cells(validate_cells(self, X))

    def _fit_public(self, X: Any) -> None:
        X = self._validate(X).X
        self.categories_ = check_categories(self.categories, X.shape[1])
        self.threshold_ = None
        self.output_norm_ = box_norm(0, 1, X.shape[1])

    def _plan_for(self, data: Cells) -> Plan:
        plan = super()._plan_for(data)
        # Odd values are refused here, before anything is paid for.
        for column in data.X.T:
            column_counts(column)
        return plan

    def _release(self, plan: Plan, data: Cells, bits: Any, sampling: Any) -> None:
        self.categories_ = [
            as_categories(plan.release.choose(column_counts(column), bits))
            for column in data.X.T
        ]
        self.threshold_ = plan.release.threshold
        self.output_norm_ = box_norm(0, 1, data.X.shape[1])

    # --- Rows

    def transform(self, X: Any) -> Any:
        """Return the indicator columns of the rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        CSR or ndarray of shape (n_samples, n_categories)
        """
        check_is_fitted(self)
        X = validate_cells(self, X, reset=False)
        columns = zip(X.T, self.categories_, strict=True)
        codes = np.column_stack([encoded(*pair) for pair in columns])
        if self.handle_unknown == "error" and np.any(codes < 0):
            raise ValueError(
                "Some values are none of the public categories. Add them to "
                "'categories', or use handle_unknown='ignore'."
            )
        found = indicators(codes, self._sizes())
        return found if self.sparse_output else found.toarray()

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return the categories of indicator columns; None for all zeros.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_categories)
            What ``transform`` returns.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        sizes = self._sizes()
        options = {"accept_sparse": "csr", "ensure_min_features": 0}
        X = as_rows(self, X, sum(sizes), **options)
        codes = codes_of(X, sizes)
        found = np.empty(codes.shape, dtype=object)
        for j, categories in enumerate(self.categories_):
            known = codes[:, j] >= 0
            found[known, j] = categories[codes[known, j]]
        text = any(one.dtype.kind in "OU" for one in self.categories_)
        if text or np.any(codes < 0):
            return found
        return found.astype(np.result_type(*self.categories_))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Return the names of the output columns, as feature_category.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Names of the input features, where X had none.

        Returns
        -------
        ndarray of str
        """
        check_is_fitted(self)
        names = input_names(self, input_features)
        pairs = zip(names, self.categories_, strict=True)
        found = [f"{name}_{value}" for name, values in pairs for value in values]
        return np.array(found, dtype=object)

    def _sizes(self) -> list[int]:
        return [len(values) for values in self.categories_]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = []
        return tags
