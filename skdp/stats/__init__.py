"""Private statistics: estimators for tables, functions for one column."""

from skdp.stats._count import DPCount, count
from skdp.stats._covariance import DPCovariance, cov
from skdp.stats._histogram import DPHistogram, histogram
from skdp.stats._mean import DPMean, mean
from skdp.stats._median import DPMedian, median
from skdp.stats._quantile import DPQuantile, quantile
from skdp.stats._total import DPSum, total
from skdp.stats._variance import DPStandardDeviation, DPVariance, std, var

__all__ = [
    "DPCount",
    "DPCovariance",
    "DPHistogram",
    "DPMean",
    "DPMedian",
    "DPQuantile",
    "DPStandardDeviation",
    "DPSum",
    "DPVariance",
    "count",
    "cov",
    "histogram",
    "mean",
    "median",
    "quantile",
    "std",
    "total",
    "var",
]
