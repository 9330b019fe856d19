"""Errors and warnings of skdp."""

__all__ = ["PrivacyWarning", "UnsupportedEventError"]


class PrivacyWarning(UserWarning):
    """Something was done that the stated guarantee does not cover."""


class UnsupportedEventError(ValueError):
    """An event was asked for an analysis that nobody has proved for it."""
