"""scikit-learn's own estimator checks; the list of expected failures is empty."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp.preprocessing import (
    BoundsScaler,
    DPKBinsDiscretizer,
    DPMinMaxScaler,
    DPOneHotEncoder,
    DPSimpleImputer,
    DPStandardScaler,
    RowNormClipper,
)

RELATIONS = ("replace", "add_remove")
FREE = [
    RowNormClipper(),
    BoundsScaler(),
    DPKBinsDiscretizer(strategy="uniform"),
    DPSimpleImputer("constant"),
]
PRIVATE = [
    kind(neighboring=neighboring, **options)
    for kind, options in (
        (DPStandardScaler, {}),
        (DPStandardScaler, {"with_mean": False, "missing": "drop"}),
        (DPStandardScaler, {"output_norm": "auto", "delta": 1e-6}),
        (DPMinMaxScaler, {}),
        (DPKBinsDiscretizer, {}),
        (DPKBinsDiscretizer, {"encode": "ordinal", "n_bins": 20}),
        (DPSimpleImputer, {}),
        (DPSimpleImputer, {"strategy": "median"}),
        (DPOneHotEncoder, {}),
        (DPOneHotEncoder, {"epsilon": 1e3, "delta": 0.5, "sparse_output": False}),
    )
    for neighboring in RELATIONS
]


@parametrize_with_checks(FREE + PRIVATE)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
