"""Leaks of pipelines, in words."""

import warnings

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.compose import (
    ColumnTransformer,
    TransformedTargetRegressor,
    make_column_selector,
)
from sklearn.decomposition import PCA
from sklearn.feature_extraction.text import CountVectorizer, HashingVectorizer
from sklearn.feature_selection import SelectKBest
from sklearn.frozen import FrozenEstimator
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.impute import SimpleImputer
from sklearn.kernel_approximation import RBFSampler
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import Pipeline, make_pipeline, make_union
from sklearn.preprocessing import (
    Binarizer,
    FunctionTransformer,
    KBinsDiscretizer,
    MinMaxScaler,
    Normalizer,
    OneHotEncoder,
    PolynomialFeatures,
    SplineTransformer,
    StandardScaler,
    TargetEncoder,
)
from sklearn.random_projection import GaussianRandomProjection

from skdp import BudgetAccountant
from skdp.exceptions import PrivacyWarning
from skdp.linear_model import DPLogisticRegression, DPRidge
from skdp.pipeline import check_pipeline
from skdp.preprocessing import (
    BoundsScaler,
    DPKBinsDiscretizer,
    DPOneHotEncoder,
    DPStandardScaler,
    RowNormClipper,
)


def model(**options):
    return DPLogisticRegression(classes=[0, 1], **options)


def leaks(pipe):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check_pipeline(pipe, warn=False)


FINE = [
    "passthrough",
    None,
    FunctionTransformer(np.arctan),
    Normalizer(),
    Binarizer(threshold=0.5),
    PolynomialFeatures(),
    HashingVectorizer(),
    CountVectorizer(vocabulary=["a", "b"]),
    OneHotEncoder(categories=[["a", "b"]]),
    SimpleImputer(strategy="constant", keep_empty_features=True),
    SplineTransformer(knots=np.array([[0.0], [1.0]])),
    RBFSampler(gamma=1.0),
    GaussianRandomProjection(n_components=3),
    FrozenEstimator(StandardScaler()),
    BoundsScaler(),
    RowNormClipper(),
    DPStandardScaler(),
    DPOneHotEncoder(),
]


@pytest.mark.parametrize("step", FINE, ids=str)
def test_fine(step):
    assert leaks(Pipeline([("step", step), ("model", model())])) == []


LEAKS = {
    StandardScaler(): "DPStandardScaler",
    MinMaxScaler(): "DPMinMaxScaler",
    PCA(): "DPPCA",
    SimpleImputer(): "DPSimpleImputer",
    SimpleImputer(strategy="constant", add_indicator=True): "DPSimpleImputer",
    SimpleImputer(strategy="constant"): "DPSimpleImputer",  # drops empty features
    OneHotEncoder(): "DPOneHotEncoder",
    OneHotEncoder(categories=[["a"]], min_frequency=3): "DPOneHotEncoder",
    SelectKBest(): "in advance",
    KBinsDiscretizer(): "DPKBinsDiscretizer",
    TargetEncoder(): "mean target",
    CountVectorizer(): "HashingVectorizer",
    SplineTransformer(): "knots",
    RBFSampler(gamma="scale"): "gamma",
    GaussianRandomProjection(): "n_components",
}


@pytest.mark.parametrize("step", LEAKS, ids=str)
def test_leaks(step):
    found = leaks(Pipeline([("step", step), ("model", model())]))
    assert len(found) == 1
    assert found[0].startswith(f"step ({type(step).__name__}) learns ")
    assert LEAKS[step] in found[0]


class Foreign(TransformerMixin, BaseEstimator):
    def fit(self, X, y=None):
        self.mean_ = np.mean(X)
        return self

    def transform(self, X):
        return X


class Subclass(StandardScaler):
    pass


@pytest.mark.parametrize("step", [Foreign(), Subclass()])
def test_what_is_not_known(step):
    (found,) = leaks(make_pipeline(step, model()))
    assert "cannot be told to be private" in found and type(step).__name__ in found


def test_nested():
    columns = ColumnTransformer(
        [
            ("numbers", make_pipeline(StandardScaler(), RowNormClipper()), [0]),
            ("codes", OneHotEncoder(), make_column_selector(dtype_include=object)),
            ("by data", "passthrough", lambda frame: [0]),
            ("out", "drop", [1]),
        ],
        remainder=MinMaxScaler(),
    )
    both = make_union(PCA(), "passthrough")
    pipe = Pipeline([("columns", columns), ("both", both), ("model", model())])
    found = leaks(pipe)
    starts = [
        "columns (ColumnTransformer) chooses columns by a function",
        "columns > numbers > standardscaler (StandardScaler)",
        "columns > codes (OneHotEncoder)",
        "columns > remainder (MinMaxScaler)",
        "both > pca (PCA)",
    ]
    assert len(found) == len(starts)
    for sentence, start in zip(found, starts, strict=True):
        assert sentence.startswith(start)


def test_searches():
    pipe = make_pipeline(StandardScaler(), model())
    grid = {"standardscaler": [MinMaxScaler(), DPStandardScaler()]}
    found = leaks(GridSearchCV(pipe, grid))
    assert "public data" in found[0]
    assert "estimator > standardscaler (StandardScaler)" in found[1]
    assert "standardscaler (MinMaxScaler)" in found[2]
    assert len(found) == 3


def test_other_containers():
    assert "cannot be told" in leaks(OneVsRestClassifier(model()))[0]
    assert leaks(TransformedTargetRegressor(DPRidge(), func=np.log)) == []
    target = TransformedTargetRegressor(DPRidge(), transformer=StandardScaler())
    assert "transformer (StandardScaler)" in leaks(target)[0]
    assert "LinearRegression" in leaks(TransformedTargetRegressor())[0]


def test_a_last_step_that_is_not_private():
    (found,) = leaks(make_pipeline(DPStandardScaler(), LogisticRegression()))
    assert "DPLogisticRegression" in found


def test_free_steps_need_no_accountant():
    budget = BudgetAccountant(1.0)
    steps = (BoundsScaler(), RowNormClipper(), model(accountant=budget))
    assert leaks(make_pipeline(*steps)) == []


def test_plain_estimators():
    assert leaks(model()) == []
    assert leaks(BoundsScaler()) == []
    assert len(leaks(StandardScaler())) == 1
    assert len(leaks(GaussianProcessRegressor())) == 1
    assert "'classes'" in leaks(DPLogisticRegression())[0]
    with pytest.raises(TypeError, match="estimator"):
        check_pipeline("pipe")


def test_budgets():
    one, two = BudgetAccountant(1.0), BudgetAccountant(1.0)
    scaler = DPStandardScaler(accountant=one)
    assert leaks(make_pipeline(scaler, model(accountant=one))) == []
    (found,) = leaks(make_pipeline(scaler, model()))
    assert "no accountant" in found and "dplogisticregression" in found
    (found,) = leaks(make_pipeline(scaler, model(accountant=two)))
    assert "different budgets" in found
    # A step that spends nothing needs none.
    free = DPKBinsDiscretizer(strategy="uniform", neighboring="add_remove")
    assert leaks(make_pipeline(free, model(accountant=one))) == []
    (found,) = leaks(make_pipeline(DPStandardScaler(neighboring="add_remove"), model()))
    assert "neighbour relations" in found


def test_two_handles_of_one_ledger(tmp_path):
    url = f"sqlite:///{tmp_path}/budget.db"
    first = BudgetAccountant(1.0, ledger=url, name="b")
    first.total()  # creates the file
    again = BudgetAccountant.open(url, "b")
    pipe = make_pipeline(DPStandardScaler(accountant=first), model(accountant=again))
    assert leaks(pipe) == []


def test_warnings():
    with pytest.warns(PrivacyWarning, match="exact means") as caught:
        found = check_pipeline(make_pipeline(StandardScaler(), model()))
    assert [str(one.message) for one in caught] == found
    assert caught[0].filename == __file__


def test_memory_and_data_do_not_matter(tmp_path):
    pipe = Pipeline([("s", BoundsScaler()), ("m", model())], memory=str(tmp_path))
    assert leaks(pipe) == []
    assert not hasattr(pipe[-1], "coef_") and not list(tmp_path.iterdir())
