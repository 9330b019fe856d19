"""scikit-learn's own estimator checks; the list of expected failures is empty."""

import warnings

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp.exceptions import PrivacyWarning
from skdp.linear_model import DPHuberRegressor, DPLinearSVC, DPLogisticRegression

# The checks fit many small data sets without naming their classes.
pytestmark = pytest.mark.filterwarnings("ignore::skdp.exceptions.PrivacyWarning")

RELATIONS = ("replace", "add_remove")
ESTIMATORS = [
    kind(method=method, neighboring=neighboring)
    for kind in (DPLogisticRegression, DPLinearSVC, DPHuberRegressor)
    for method in ("objective", "output", "gradient")
    for neighboring in RELATIONS
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        check(estimator)
