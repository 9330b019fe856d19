"""What a pipeline learns besides its private steps."""

import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.compose import make_column_selector as column_selector
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from skdp.base import PrivateEstimator
from skdp.exceptions import PrivacyWarning
from skdp.preprocessing import BoundsScaler, RowNormClipper

__all__ = ["check_pipeline"]

_FREE = (BoundsScaler, RowNormClipper)
_FREEZE = "fit it on public data and freeze it (sklearn.frozen.FrozenEstimator)"
_SCALE = "DPStandardScaler, or BoundsScaler with public bounds"
_RANGE = "DPMinMaxScaler, or BoundsScaler with public bounds"
_IMPUTE = "DPSimpleImputer"
_BINS = "DPKBinsDiscretizer"
_CODES = "DPOneHotEncoder, or public 'categories'"
_COLUMNS = "a choice of features made in advance"
_WORDS = "HashingVectorizer, or a public 'vocabulary'"
_PCA = "DPPCA"

# What classes of scikit-learn learn from the data, and what to use instead.
_LEARNS = {
    "StandardScaler": ("exact means and variances", _SCALE),
    "RobustScaler": ("exact quantiles", _SCALE),
    "MinMaxScaler": ("the smallest and largest values", _RANGE),
    "MaxAbsScaler": ("the largest values", _RANGE),
    "QuantileTransformer": ("exact quantiles", _BINS),
    "PowerTransformer": ("exponents, means and variances", _SCALE),
    "SplineTransformer": ("knots", "public 'knots'"),
    "KBinsDiscretizer": ("the edges of the bins", _BINS),
    "SimpleImputer": ("a statistic of every feature", _IMPUTE),
    "IterativeImputer": ("a model of every feature", _IMPUTE),
    "KNNImputer": ("the rows themselves", _IMPUTE),
    "MissingIndicator": ("which features have missing values", "features='all'"),
    "OneHotEncoder": ("the set of values that occur", _CODES),
    "OrdinalEncoder": ("the set of values that occur", _CODES),
    "TargetEncoder": ("the mean target of every value", _CODES),
    "CountVectorizer": ("the words that occur", _WORDS),
    "TfidfVectorizer": ("the words that occur and their frequencies", _WORDS),
    "TfidfTransformer": ("the frequencies of words", "use_idf=False"),
    "DictVectorizer": ("the names that occur", "FeatureHasher"),
    "PCA": ("principal components", _PCA),
    "IncrementalPCA": ("principal components", _PCA),
    "KernelPCA": ("principal components and the rows themselves", _PCA),
    "TruncatedSVD": ("singular vectors", _PCA),
    "Nystroem": ("some of the rows themselves", "RBFSampler with a number as 'gamma'"),
    "RBFSampler": ("the variance of the data", "a number as 'gamma'"),
    "GaussianRandomProjection": ("the number of rows", "a number of 'n_components'"),
    "SparseRandomProjection": ("the number of rows", "a number of 'n_components'"),
    "VarianceThreshold": ("which features vary", _COLUMNS),
    "SelectKBest": ("which features go with the target", _COLUMNS),
    "SelectPercentile": ("which features go with the target", _COLUMNS),
    "LogisticRegression": ("a model of the rows", "DPLogisticRegression"),
    "LinearSVC": ("a model of the rows", "DPLinearSVC"),
    "LinearRegression": ("a model of the rows", "DPRidge"),
    "Ridge": ("a model of the rows", "DPRidge"),
    "HuberRegressor": ("a model of the rows", "DPHuberRegressor"),
}


def _given_categories(step: Any) -> bool:
    grouped = (
        getattr(step, name, None) for name in ("min_frequency", "max_categories")
    )
    auto = isinstance(step.categories, str)
    return not auto and all(limit is None for limit in grouped)


# Classes of scikit-learn that need a fit, and when that fit reads nothing private.
_PUBLIC: dict[str, Callable[[Any], bool]] = {
    "FrozenEstimator": lambda step: True,
    "FeatureHasher": lambda step: True,
    "HashingVectorizer": lambda step: True,
    "PolynomialFeatures": lambda step: True,
    "PolynomialCountSketch": lambda step: True,
    "SkewedChi2Sampler": lambda step: True,
    "SparseCoder": lambda step: True,
    "RBFSampler": lambda step: not isinstance(step.gamma, str),
    "GaussianRandomProjection": lambda step: step.n_components != "auto",
    "SparseRandomProjection": lambda step: step.n_components != "auto",
    "SplineTransformer": lambda step: not isinstance(step.knots, str),
    "OneHotEncoder": _given_categories,
    "OrdinalEncoder": _given_categories,
    "SimpleImputer": lambda step: (
        step.strategy == "constant"
        and not step.add_indicator
        and step.keep_empty_features  # which features are empty is data
    ),
    "MissingIndicator": lambda step: step.features == "all",
    "CountVectorizer": lambda step: step.vocabulary is not None,
    "TfidfVectorizer": lambda step: step.vocabulary is not None and not step.use_idf,
    "TfidfTransformer": lambda step: not step.use_idf,
}


class _Step(NamedTuple):
    """An estimator and where it is."""

    path: tuple[str, ...]
    estimator: Any

    @property
    def title(self) -> str:
        kind = type(self.estimator).__name__
        return f"{' > '.join(self.path)} ({kind})" if self.path else kind

    def inner(self, name: str, estimator: Any) -> "_Step":
        return _Step((*self.path, name), estimator)


# --- Walking down


def _is_estimator(value: Any) -> bool:
    return hasattr(value, "fit") and not isinstance(value, type)


def _grid_values(search: Any) -> Iterator[tuple[str, Any]]:
    """Yield the candidates of a search that are estimators themselves."""
    grids = getattr(search, "param_grid", None)
    grids = getattr(search, "param_distributions", None) if grids is None else grids
    grids = [grids] if isinstance(grids, dict) else grids or []
    for grid in grids:
        for name, values in grid.items():
            if isinstance(values, (list, tuple)):
                yield from ((name, value) for value in values if _is_estimator(value))


def _children(step: _Step) -> list[_Step]:
    """Return the estimators inside of an estimator."""
    whole = step.estimator
    if isinstance(whole, Pipeline):
        return [step.inner(name, inner) for name, inner in whole.steps]
    if isinstance(whole, FeatureUnion):
        return [step.inner(name, inner) for name, inner in whole.transformer_list]
    if isinstance(whole, ColumnTransformer):
        found = [step.inner(name, inner) for name, inner, _ in whole.transformers]
        return [*found, step.inner("remainder", whole.remainder)]
    params = whole.get_params(deep=False) if hasattr(whole, "get_params") else {}
    found = [step.inner(name, value) for name, value in params.items()]
    return [*found, *(step.inner(*pair) for pair in _grid_values(whole))]


def _kind(step: Any) -> str:
    """Return the name of a class of scikit-learn, or of a subclass's parent there."""
    for parent in type(step).__mro__:
        if parent.__module__.startswith("sklearn."):
            return parent.__name__ if parent is type(step) else ""
    return ""


def _is_private(step: Any) -> bool:
    if isinstance(step, _FREE):
        return False
    return isinstance(step, PrivateEstimator) or hasattr(step, "privacy_cost")


def _reads_nothing(step: Any) -> bool:
    """Whether a fit of this non-private step reads nothing private."""
    if isinstance(step, _FREE):
        return True
    public = _PUBLIC.get(_kind(step))
    if public is not None:
        return public(step)
    if hasattr(step, "predict"):  # GaussianProcessRegressor predicts without a fit, too
        return False
    try:
        return not get_tags(step).requires_fit
    except Exception:  # a class of another library, without tags
        return False


# --- Sentences


def _about_leaf(step: _Step) -> str | None:
    """Return what a step that holds no other learns, where that is not private."""
    if _reads_nothing(step.estimator):
        return None
    kind = _kind(step.estimator)
    if kind in _LEARNS:
        what, instead = _LEARNS[kind]
        return (
            f"{step.title} learns {what} from the data, without privacy: use "
            f"{instead}, or {_FREEZE}."
        )
    if kind:
        return (
            f"{step.title} learns from the data, without privacy: leave it out, or "
            f"{_FREEZE}."
        )
    return (
        f"{step.title} cannot be told to be private: it may learn from the data. Use a "
        f"private step, or {_FREEZE}."
    )


def _by_name(columns: Any) -> bool:
    """Whether a selector goes by the names of columns alone, not by their dtypes."""
    return (
        isinstance(columns, column_selector)
        and columns.dtype_include is None
        and columns.dtype_exclude is None
    )


def _may_be_sparse(step: Any) -> bool:
    """Whether the output of a step may be sparse."""
    if isinstance(step, Pipeline):
        return any(_may_be_sparse(inner) for _, inner in step.steps)
    if isinstance(step, str):
        return False
    return bool(getattr(step, "sparse_output", False)) or (
        getattr(step, "encode", "") == "onehot"
    )


def _about_container(step: _Step) -> str | None:
    """Return what a container of other estimators learns itself."""
    whole = step.estimator
    if isinstance(whole, ColumnTransformer):
        choices = [columns for _, _, columns in whole.transformers]
        if any(callable(c) and not _by_name(c) for c in choices):
            return (
                f"{step.title} chooses columns by a function that sees the data: name "
                "the columns."
            )
        if whole.sparse_threshold > 0 and any(
            _may_be_sparse(inner) for _, inner, _ in whole.transformers
        ):
            return (
                f"{step.title} makes its output sparse or not by the number of zeros "
                "in the data: set sparse_threshold=0."
            )
        return None
    if isinstance(whole, TransformedTargetRegressor) and whole.regressor is None:
        return (
            f"{step.title} fits a LinearRegression, without privacy: give a private "
            "'regressor'."
        )
    if isinstance(whole, (Pipeline, FeatureUnion, TransformedTargetRegressor)):
        return None
    if hasattr(whole, "cv") and hasattr(whole, "refit"):
        return (
            f"{step.title} chooses by scores on the data, which no step pays for: "
            "search on public data, and fit the private data once."
        )
    return (
        f"{step.title} cannot be told to be private: it holds other estimators, and "
        "what it learns besides them is not covered."
    )


def _about_private(step: _Step) -> str | None:
    """Return what a private step reads without privacy."""
    if getattr(step.estimator, "classes", 0) is None:
        return (
            f"{step.title} reads the set of labels from the data, without privacy: "
            "give the public set as 'classes'."
        )
    return None


def _walk(step: _Step, private: list[_Step]) -> Iterator[str]:
    """Yield the sentences about a step and those in it; collect the private ones."""
    if not _is_estimator(step.estimator) and not hasattr(step.estimator, "transform"):
        return  # "passthrough", "drop", None, numbers
    if _kind(step.estimator) == "FrozenEstimator":
        return
    if _is_private(step.estimator):
        private.append(step)
        sentence = _about_private(step)
    else:
        known = (Pipeline, FeatureUnion, ColumnTransformer, TransformedTargetRegressor)
        inner = [child for child in _children(step) if _is_estimator(child.estimator)]
        if inner or isinstance(step.estimator, known):
            if sentence := _about_container(step):
                yield sentence
            for child in inner:
                yield from _walk(child, private)
            return
        sentence = _about_leaf(step)
    if sentence:
        yield sentence


def _budget_key(accountant: Any) -> Any:
    """Return what two handles of one budget have in common."""
    ledger = getattr(accountant, "ledger", None)
    if ledger is None:
        return id(accountant)
    return ledger, getattr(accountant, "name", None)


def _titles(steps: list[_Step]) -> str:
    return ", ".join(step.title for step in steps)


def _about_budgets(private: list[_Step]) -> Iterator[str]:
    """Yield the sentences about the private steps together."""
    paying = [
        step
        for step in private
        if not getattr(step.estimator, "_is_public", lambda: False)()
    ]
    with_one, without = [], []
    for step in paying:
        held = getattr(step.estimator, "accountant", None) is not None
        (with_one if held else without).append(step)
    if with_one and without:
        yield (
            f"{_titles(without)}: no accountant, while {_titles(with_one)} has one: "
            "the budget would not know of all releases. Give all of them the same."
        )
    if len({_budget_key(step.estimator.accountant) for step in with_one}) > 1:
        yield (
            f"{_titles(with_one)} spend from different budgets: about the same rows "
            "what they cost adds up. Give all of them the same accountant."
        )
    if len({getattr(step.estimator, "neighboring", None) for step in paying}) > 1:
        yield (
            f"{_titles(paying)} have different neighbour relations: their guarantees "
            "cannot be combined. Give all of them the same 'neighboring'."
        )


def check_pipeline(pipe: Any, *, warn: bool = True) -> list[str]:
    """Tell what an estimator would learn from private data without privacy.

    A private model at the end does not make the steps before it private: a
    ``StandardScaler`` publishes exact means inside the fitted pipeline, and a model
    fitted to rows that depend on everybody's rows has no guarantee at all.

    Parameters
    ----------
    pipe : estimator
        A Pipeline, FeatureUnion, ColumnTransformer, search or any other estimator, with
        what is in it. It is not fitted, and no data is read.
    warn : bool, default=True
        Whether to emit a :class:`~skdp.exceptions.PrivacyWarning` for each leak.

    Returns
    -------
    list of str
        A sentence for every leak: which step, what it learns and what to use instead.
        Empty where nothing was found.

    Notes
    -----
    Steps of scikit-learn are known by their class and tags; those of other libraries
    cannot be told to be private, unless their tags say that they need no fit. What a
    ``FunctionTransformer`` computes is not looked at: its function must treat every
    row by itself.

    Examples
    --------
    >>> from sklearn.pipeline import make_pipeline
    >>> from sklearn.preprocessing import StandardScaler
    >>> from skdp.linear_model import DPLogisticRegression
    >>> from skdp.pipeline import check_pipeline
    >>> from skdp.preprocessing import BoundsScaler
    >>> model = DPLogisticRegression(classes=[0, 1])
    >>> check_pipeline(make_pipeline(BoundsScaler((0, 100)), model))
    []
    >>> for leak in check_pipeline(make_pipeline(StandardScaler(), model), warn=False):
    ...     print(leak)
    standardscaler (StandardScaler) learns exact means and variances from the data,
    without privacy: use DPStandardScaler, or BoundsScaler with public bounds, or fit it
    on public data and freeze it (sklearn.frozen.FrozenEstimator).
    """
    if not (_is_estimator(pipe) or hasattr(pipe, "transform")):
        raise TypeError(
            f"The 'pipe' parameter must be an estimator. Got {type(pipe).__name__}."
        )
    private: list[_Step] = []
    leaks = list(_walk(_Step((), pipe), private))
    leaks += _about_budgets(private)
    if warn:
        for leak in leaks:
            warnings.warn(leak, PrivacyWarning, stacklevel=2)
    return leaks
