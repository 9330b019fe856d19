"""What a budget looks like: numbers, no secrets, no markup from labels."""

import html
import re
from html.parser import HTMLParser

import pytest

from skdp import BudgetAccountant
from skdp.accounting.views import bar
from skdp.events import Composed, Gaussian, Laplace, Pure
from skdp.exceptions import BudgetExceededError


@pytest.fixture
def accountant():
    accountant = BudgetAccountant(2.0, 1e-6, name="census")
    accountant.spend(Laplace(4.0), "mean age")
    accountant.spend(epsilon=0.5, delta=1e-8, seeded=True)
    return accountant


def check_markup(text):
    """Fail unless every element is closed in its turn."""
    stack = []

    class Checker(HTMLParser):
        def handle_starttag(self, tag, attrs):
            if tag != "br":
                stack.append(tag)

        def handle_endtag(self, tag):
            assert stack.pop() == tag

    Checker().feed(text)
    assert stack == []


def visible(text):
    return html.unescape(re.sub("<[^>]*>", " ", text))


def test_repr_is_what_made_it():
    assert repr(BudgetAccountant(1.0)) == "BudgetAccountant(epsilon=1, delta=1e-05)"
    terms = {"neighboring": "add_remove", "composition": "basic", "name": "census"}
    again = eval(repr(BudgetAccountant(0.3, 0.0, **terms)))
    assert (again.epsilon, again.delta) == (0.3, 0.0)
    assert all(getattr(again, name) == value for name, value in terms.items())


def test_text_has_the_numbers(accountant):
    text = str(accountant)
    wanted = ["census", "0.75 of 2", "1e-08 of 1e-06", "1.25", "2 spends", "basic"]
    wanted += ["replace", "38%", "█"]
    assert [part for part in wanted if part not in text] == []
    assert len(text.splitlines()) == 5 and "nan" not in text


def test_text_of_a_new_and_of_a_spent_budget():
    accountant = BudgetAccountant(1.0, 0.0)
    assert "0 of 1" in str(accountant) and "█" not in str(accountant)
    accountant.spend(epsilon=1.0)
    assert "100%" in str(accountant) and "░" not in str(accountant)
    assert "nothing is left" in str(accountant) and "1 spend recorded" in str(
        accountant
    )


def test_html_has_the_numbers_and_the_spends(accountant):
    text = accountant._repr_html_()
    check_markup(text)
    shown = visible(text)
    wanted = ["census", "0.75 of 2", "mean age", "(seeded)", "0.25", "0.5", "1e-08"]
    assert [part for part in wanted if part not in shown] == []
    assert "width: 37.5%" in text


@pytest.mark.parametrize("spends", [0, 1, 19, 20, 21, 45])
def test_html_of_many_spends(spends):
    accountant = BudgetAccountant(1.0, 0.0)
    for i in range(spends):
        accountant.spend(epsilon=0.01, label=f"label {i}.")
    text = accountant._repr_html_()
    check_markup(text)
    assert text.count("<tr>") == (0 if spends == 0 else min(spends, 20) + 1)
    assert ("earlier" in text) == (spends > 20)
    assert spends == 0 or f"label {spends - 1}." in text


def test_labels_and_names_are_no_markup():
    evil = "<script>alert('&amp; \"x\"')</script>"
    accountant = BudgetAccountant(1.0, name=evil)
    accountant.spend(epsilon=0.1, label=evil)
    text = accountant._repr_html_()
    check_markup(text)
    assert "<script" not in text
    assert visible(text).count(evil) == 1 and html.escape(evil) in text


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://steward:hush@127.0.0.1:1/budgets",
        "postgresql://steward@127.0.0.1:1/budgets?password=hush",
        "postgresql://steward:hush%40@127.0.0.1:1/budgets?connect_timeout=1",
    ],
)
def test_a_password_is_never_shown(url):
    accountant = BudgetAccountant(1.0, ledger=url)
    (child,) = accountant.parallel(1)
    for handle in (accountant, child):
        for text in (repr(handle), handle.ledger, repr(handle.__reduce__())):
            assert "hush" not in text and "127.0.0.1" in text


@pytest.mark.parametrize(
    "share, blocks", [(-1, 0), (0, 0), (1e-9, 1), (0.5, 20), (0.999, 39), (1, 40)]
)
def test_the_bar_never_lies(share, blocks):
    assert bar(share) == "█" * blocks + "░" * (40 - blocks)
    assert bar(7.0) == "█" * 40


def test_a_long_event_does_not_make_a_long_message():
    accountant = BudgetAccountant(0.1, 1e-6)
    many = Composed([Pure(0.01 + i * 1e-6) for i in range(100)])
    with pytest.raises(BudgetExceededError) as caught:
        accountant.spend(many)
    assert len(str(caught.value)) < 2000


def test_frame(accountant):
    pandas = pytest.importorskip("pandas")
    accountant.spend(Gaussian(20.0), "noisy")
    frame = accountant.to_frame()
    columns = ["time", "label", "event", "epsilon", "delta", "seeded"]
    assert list(frame.columns) == columns
    assert list(frame["label"].fillna("-")) == ["mean age", "-", "noisy"]
    assert list(frame["epsilon"][:2]) == [0.25, 0.5]
    assert list(frame["delta"][:2]) == [0.0, 1e-8]
    assert 0 < frame["epsilon"][2] < 2 and frame["delta"][2] > 0
    assert list(frame["seeded"]) == [False, True, False]
    assert isinstance(frame["time"].dtype, pandas.DatetimeTZDtype)
    empty = BudgetAccountant(1.0).to_frame()
    assert list(empty.columns) == columns and len(empty) == 0
