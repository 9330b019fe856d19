"""Rows scaled back to a public norm."""

from typing import Any

from sklearn.base import BaseEstimator, OneToOneFeatureMixin

from skdp.inputs import validated
from skdp.preprocessing._base import PublicTransformer
from skdp.preprocessing._norms import clip_rows
from skdp.validation import check_real

__all__ = ["RowNormClipper"]


class RowNormClipper(OneToOneFeatureMixin, PublicTransformer, BaseEstimator):
    """Scale rows that are longer than ``norm`` back to it.

    Put it before a model with ``data_norm`` and give both the same number. It learns
    nothing and costs nothing.

    Parameters
    ----------
    norm : float, default=1.0
        Largest L2 norm of a row, between 1e-30 and 1e30; public.

    Attributes
    ----------
    output_norm_ : float
        Bound of the norm of every row that ``transform`` returns.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        That nothing was spent; prints as a sentence.

    Guarantee
    ---------
    Nothing is read from the data but its number of features, so no privacy is spent.
    Each row is changed by itself. The norm of a returned row is at most ``norm`` in
    exact arithmetic: rows at the limit are made shorter by a few parts in 10^16
    (10^7 for float32).

    Examples
    --------
    >>> from skdp.preprocessing import RowNormClipper
    >>> RowNormClipper(norm=1.0).fit_transform([[3.0, 4.0], [0.0, 0.5]]).round(6)
    array([[0.6, 0.8],
           [0. , 0.5]])
    """

    def __init__(self, norm: float = 1.0) -> None:
        self.norm = norm

    def fit(self, X: Any, y: Any = None) -> "RowNormClipper":
        """Check the parameter and the number of features.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Rows; only their number of features counts.
        y : ignored
            For the API's sake.

        Returns
        -------
        self
        """
        norm = check_real(self.norm, "norm", low=1e-30, high=1e30, closed="both")
        validated(self, X)
        self.output_norm_ = norm
        self._publish_guarantee()
        return self

    def transform(self, X: Any) -> Any:
        """Return the rows, none of them longer than ``norm``.

        Parameters
        ----------
        X : array-like or sparse of shape (n_samples, n_features)
            Rows. CSR stays CSR.

        Returns
        -------
        ndarray or CSR of shape (n_samples, n_features)
        """
        norm = check_real(self.norm, "norm", low=1e-30, high=1e30, closed="both")
        X = validated(self, X, reset=False)
        clipped = clip_rows(X, norm)
        return clipped.copy() if clipped is X else clipped

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.requires_fit = False
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
