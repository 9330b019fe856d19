"""Ways to overdraw a budget that a review found; each is closed."""

import os
import sqlite3
from decimal import localcontext

import pytest

from skdp import BudgetAccountant
from skdp.accounting import ledger as ledger_module
from skdp.accounting._rules import choose_rules
from skdp.events import Gaussian
from skdp.exceptions import DetachedAccountantError, LedgerError


@pytest.mark.parametrize("precision", [2, 3, 6])
def test_the_ceiling_does_not_depend_on_the_decimal_context(precision):
    with localcontext() as context:
        context.prec = precision
        accountant = BudgetAccountant(0.9996, 0)
        assert not accountant.check(epsilon=1.0)
        assert accountant.check(epsilon=0.9996)
        accountant.spend(epsilon=0.9)
        assert not accountant.check(epsilon=0.0997)


def test_terms_that_were_changed_in_the_database_are_refused(tmp_path):
    url = f"sqlite:///{tmp_path / 'budget.db'}"
    BudgetAccountant(10.0, 0, ledger=url).total()
    opened = BudgetAccountant.open(url)
    with sqlite3.connect(tmp_path / "budget.db") as connection:
        connection.execute("UPDATE skdp_budget SET epsilon = '0.1'")
    connection.close()
    with pytest.raises(LedgerError, match="other terms"):
        opened.spend(epsilon=5.0)
    fresh = BudgetAccountant.open(url)
    assert fresh.epsilon == 0.1
    assert fresh.spends == []
    assert not fresh.check(epsilon=5.0)


def test_a_file_with_two_names_is_refused(tmp_path):
    first, second = tmp_path / "first.db", tmp_path / "second.db"
    accountant = BudgetAccountant(1.0, 0, ledger=f"sqlite:///{first}")
    accountant.spend(epsilon=0.5)
    os.link(first, second)
    with pytest.raises(LedgerError, match="hard link"):
        accountant.spend(epsilon=0.1)
    with pytest.raises(LedgerError, match="hard link"):
        BudgetAccountant.open(f"sqlite:///{second}")
    second.unlink()
    accountant.spend(epsilon=0.1)
    assert len(accountant.spends) == 2


def test_a_copy_with_the_same_process_number_is_detached(monkeypatch):
    accountant = BudgetAccountant(1.0)
    monkeypatch.setattr(ledger_module, "_forks", ledger_module._forks + 1)
    with pytest.raises(DetachedAccountantError):
        accountant.spend(epsilon=0.1)


def test_a_tiny_delta_has_no_gaussian_rule():
    # Each release may differ from a continuous Gaussian by 2**-78 in delta.
    assert choose_rules(1.0, 1e-16, "adaptive", Gaussian(100.0)).gaussian_delta == 0
    assert choose_rules(1.0, 1e-10, "adaptive", Gaussian(100.0)).gaussian_delta > 0
