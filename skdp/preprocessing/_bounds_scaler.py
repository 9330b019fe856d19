"""A public affine map."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, OneToOneFeatureMixin
from sklearn.utils.validation import check_is_fitted

from skdp.inputs import feature_bounds, validated
from skdp.preprocessing._base import (
    PublicTransformer,
    as_rows,
    clip_values,
    inside,
)
from skdp.preprocessing._norms import box_norm
from skdp.validation import check_bool, check_bounds

__all__ = ["BoundsScaler"]


class BoundsScaler(OneToOneFeatureMixin, PublicTransformer, BaseEstimator):
    """Map public bounds of every feature to ``feature_range``.

    What :class:`sklearn.preprocessing.MinMaxScaler` does with the smallest and largest
    values of the data, with public bounds in their place. It costs nothing.

    Parameters
    ----------
    bounds : pair, default=(0, 1)
        Public bounds of the values, numbers or one for each feature.
    feature_range : pair of float, default=(0, 1)
        What the bounds are mapped to.
    clip : bool, default=True
        Whether values outside the bounds are clipped to them first.

    Attributes
    ----------
    output_norm_ : float
        Bound of the norm of every row that ``transform`` returns; inf for
        ``clip=False``.
    scale_, min_ : ndarray of shape (n_features,)
        The map is ``X * scale_ + min_``.
    data_min_, data_max_ : ndarray of shape (n_features,)
        The bounds.
    n_features_in_ : int
        Number of features.
    feature_names_in_ : ndarray
        Names of the features, where X has them.
    privacy_ : PrivacyGuarantee
        That nothing was spent; prints as a sentence.

    Guarantee
    ---------
    Nothing is read from the data but its number of features, so no privacy is spent.
    Assumes that the bounds are chosen without the private data. NaN stays NaN.

    Examples
    --------
    >>> from skdp.preprocessing import BoundsScaler
    >>> ages_and_hours = [[17, 40], [99, 20], [58, 60]]
    >>> BoundsScaler(bounds=([18, 0], [98, 80])).fit_transform(ages_and_hours)
    array([[0.  , 0.5 ],
           [1.  , 0.25],
           [0.5 , 0.75]])
    """

    def __init__(
        self, bounds: Any = (0, 1), feature_range: Any = (0, 1), clip: bool = True
    ) -> None:
        self.bounds = bounds
        self.feature_range = feature_range
        self.clip = clip

    def fit(self, X: Any, y: Any = None) -> "BoundsScaler":
        """Check the parameters and the number of features.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows; only their number of features counts.
        y : ignored
            For the API's sake.

        Returns
        -------
        self
        """
        check_bool(self.clip, "clip")
        start, end = check_bounds(self.feature_range, "feature_range")
        options = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
        X = validated(self, X, **options)
        low, high = feature_bounds(self.bounds, X.shape[1])
        self.data_min_, self.data_max_ = low, high
        self.scale_ = (end - start) / (high - low)
        self.min_ = start - low * self.scale_
        reach = box_norm(start, end, X.shape[1])
        self.output_norm_ = reach if self.clip else float("inf")
        self._publish_guarantee()
        return self

    def transform(self, X: Any) -> np.ndarray:
        """Return the rows with the bounds mapped to ``feature_range``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        options = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
        X = validated(self, X, reset=False, copy=True, **options)
        if self.clip:
            clip_values(X, self.data_min_, self.data_max_)
        X *= self.scale_
        X += self.min_
        if self.clip:  # what rounding left outside
            np.clip(X, *inside(*self.feature_range, X.dtype), out=X)
        return X

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Return rows in the units of the data again.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Transformed rows.

        Returns
        -------
        ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        options = {"accept_sparse": False, "ensure_all_finite": "allow-nan"}
        X = as_rows(self, X, **options)
        X -= self.min_
        X /= self.scale_
        return X

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
