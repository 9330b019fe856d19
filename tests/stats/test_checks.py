"""scikit-learn's own estimator checks; the list of expected failures is empty."""

from sklearn.utils.estimator_checks import parametrize_with_checks

from skdp.stats import (
    DPCount,
    DPMean,
    DPMedian,
    DPQuantile,
    DPStandardDeviation,
    DPSum,
    DPVariance,
)

RELATIONS = ("replace", "add_remove")
ESTIMATORS = [
    kind(neighboring=neighboring, missing=missing)
    for kind in (
        DPMean,
        DPSum,
        DPVariance,
        DPStandardDeviation,
        DPCount,
        DPMedian,
        DPQuantile,
    )
    for neighboring in RELATIONS
    for missing in ("error", "drop")
]
ESTIMATORS += [
    DPMean(delta=1e-6, method="gaussian"),
    DPMean(delta=1e-6, method="coinpress", spread=(1, 2)),
    DPMedian(method="smooth-cauchy"),
    DPMedian(delta=1e-6, method="smooth-laplace"),
    DPMedian(delta=1e-6, method="smooth-gaussian"),
    DPMedian(confidence=0.9),
    DPQuantile([0.2, 0.8], method="exponential"),
    DPQuantile([0.2, 0.5, 0.8], method="joint"),
    DPQuantile([0.2, 0.5, 0.8], method="recursive"),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn_checks(estimator, check):
    check(estimator)
