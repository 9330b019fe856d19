"""Transformers that learn with differential privacy, or from public numbers only."""

from skdp.preprocessing._bounds_scaler import BoundsScaler
from skdp.preprocessing._k_bins_discretizer import DPKBinsDiscretizer
from skdp.preprocessing._min_max_scaler import DPMinMaxScaler
from skdp.preprocessing._one_hot_encoder import DPOneHotEncoder
from skdp.preprocessing._row_norm_clipper import RowNormClipper
from skdp.preprocessing._simple_imputer import DPSimpleImputer
from skdp.preprocessing._standard_scaler import DPStandardScaler

__all__ = [
    "BoundsScaler",
    "DPKBinsDiscretizer",
    "DPMinMaxScaler",
    "DPOneHotEncoder",
    "DPSimpleImputer",
    "DPStandardScaler",
    "RowNormClipper",
]
