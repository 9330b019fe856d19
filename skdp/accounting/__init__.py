"""One privacy budget for many releases, people and processes."""

from skdp.accounting._remaining import Remaining
from skdp.accounting._rules import Reading
from skdp.accounting.accountant import BudgetAccountant, SpendRecord

__all__ = ["BudgetAccountant", "Reading", "Remaining", "SpendRecord"]
