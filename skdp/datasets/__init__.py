"""Synthetic data that is safe to show beside its private answers."""

from ._census import CENSUS_LAW, CENSUS_MARGINS, CensusLaw, make_census

__all__ = ["CENSUS_LAW", "CENSUS_MARGINS", "CensusLaw", "make_census"]
