"""Errors and warnings of skdp."""

__all__ = [
    "BudgetError",
    "BudgetExceededError",
    "DetachedAccountantError",
    "LedgerError",
    "PrivacyWarning",
    "UnsupportedEventError",
]


class PrivacyWarning(UserWarning):
    """Something was done that the stated guarantee does not cover."""


class UnsupportedEventError(ValueError):
    """An event was asked for an analysis that nobody has proved for it."""


class BudgetError(Exception):
    """Base of all errors of a budget."""


class BudgetExceededError(BudgetError):
    """The budget cannot pay for a release; nothing was recorded.

    Attributes
    ----------
    asked : tuple of float
        The (epsilon, delta) of the release.
    remaining : tuple of float
        The largest (epsilon, delta) that would have been accepted.
    """

    def __init__(self, message: str, *, asked=None, remaining=None) -> None:
        super().__init__(message)
        self.asked, self.remaining = asked, remaining


class DetachedAccountantError(BudgetError):
    """A budget in memory was used in a process other than its own."""

    @classmethod
    def of(cls, name: str) -> "DetachedAccountantError":
        """Return the error for the budget with this name."""
        return cls(
            f"The budget {name!r} lives in the memory of another process (or its "
            "accountant is gone), so that nothing can be spent here. Share it through "
            "a ledger, BudgetAccountant(..., ledger='sqlite:///budget.db'), or stay in "
            "one process: n_jobs=1, or joblib.parallel_config(backend='threading')."
        )


class LedgerError(BudgetError):
    """A ledger could not be read or written."""
