"""Synthetic data that is safe to show beside its private answers."""

from skdp.datasets._census import make_census
from skdp.datasets._census_law import CENSUS_LAW, CENSUS_MARGINS, CensusLaw

__all__ = ["CENSUS_LAW", "CENSUS_MARGINS", "CensusLaw", "make_census"]
