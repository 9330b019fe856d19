"""One budget that cannot be overdrawn, wherever its handle goes."""

import uuid
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, NamedTuple
from weakref import WeakValueDictionary

from skdp import events
from skdp.accounting._accounts import Accounts
from skdp.accounting._remaining import Remaining, plain_event, refusal, remaining
from skdp.accounting._rules import Reading, Rules, basic_price, choose_rules
from skdp.accounting.ledger import Budget, Ledger, MemoryLedger, Spend, open_ledger
from skdp.accounting.views import as_html, as_text
from skdp.exceptions import BudgetError, BudgetExceededError, UnsupportedEventError
from skdp.validation import (
    Neighboring,
    check_delta,
    check_epsilon,
    check_integer,
    check_neighboring,
    check_option,
)

__all__ = ["BudgetAccountant", "Remaining", "SpendRecord"]

# The live accountants and ledgers of this process: a pickle that comes home is the same
# accountant, or a new handle to the same ledger.
_LIVE: WeakValueDictionary = WeakValueDictionary()
_LEDGERS: WeakValueDictionary = WeakValueDictionary()


class SpendRecord(NamedTuple):
    """One spend: when, what, by whom."""

    time: datetime
    event: events.Event
    label: str | None
    seeded: bool
    path: str


@lru_cache(maxsize=256)
def _parse_rules(text: str) -> Rules:
    return Rules.from_json(text)


def _read_accounts(text: str | None, rules: Rules) -> Accounts:
    return rules.nothing if text is None else Accounts.from_json(text)


class BudgetAccountant:
    """A privacy budget that every release is paid from, before it is made.

    An accountant is a handle to a ledger. Copies of it, clones of estimators that hold
    it and accountants unpickled in the same process all are the same accountant.

    Parameters
    ----------
    epsilon : float
        Ceiling of epsilon, > 0.
    delta : float, default=1e-5
        Ceiling of delta, in [0, 1).
    neighboring : {"replace", "add_remove"}, default="replace"
        Neighbour relation of the budget. Events of the other one are refused.
    composition : {"adaptive", "basic", "advanced"}, default="adaptive"
        "adaptive" takes the best of several rules, each of which stays valid when
        releases are chosen after seeing earlier answers. "basic" adds up epsilon and
        delta; "advanced" is advanced composition, in the form that allows adaptive
        parameters. These two are for lessons.
    ledger : str, default=None
        None keeps the budget in the memory of this process.
        ``"sqlite:///file.db"`` shares it among the processes of one machine,
        ``"postgresql://user@host/database"`` among several machines. Both connect at
        the first use, not here.
    name : str, default=None
        Name of the budget in the ledger; "default" where None.

    Guarantee
    ---------
    All releases paid from the budget together are (epsilon, delta)-DP under
    ``neighboring``, also when each is chosen after seeing the answers before it.
    Assumes that every release is paid before it is made, with an event that describes
    it. The guarantee is the ceiling; what ``total`` reads is a guarantee by itself only
    if the number of releases did not depend on the answers.

    References
    ----------
    Rogers, Roth, Ullman and Vadhan (2016). Privacy odometers and filters.
    Feldman and Zrnic (2021). Individual privacy accounting via a Renyi filter.
    Smith and Thakurta (2022). Fully adaptive composition for Gaussian differential
    privacy.
    Whitehouse, Ramdas, Rogers and Wu (2023). Fully adaptive composition in
    differential privacy.

    Examples
    --------
    >>> from skdp import BudgetAccountant
    >>> accountant = BudgetAccountant(epsilon=1.0, delta=1e-6)
    >>> record = accountant.spend(epsilon=0.25, label="mean age")
    >>> accountant.total()
    Reading(epsilon=0.25, delta=0.0, rule='basic')
    >>> accountant.check(epsilon=0.8)
    False
    """

    def __init__(
        self,
        epsilon: float,
        delta: float = 1e-5,
        *,
        neighboring: Neighboring = "replace",
        composition: str = "adaptive",
        ledger: str | None = None,
        name: str | None = None,
    ) -> None:
        name = "default" if name is None else name
        if not isinstance(name, str) or not name:
            raise TypeError(f"The 'name' parameter must be a text. Got {name!r}.")
        options = ("adaptive", "basic", "advanced")
        budget = Budget(
            name,
            check_epsilon(epsilon),
            check_delta(delta),
            check_neighboring(neighboring),
            check_option(composition, "composition", options),
        )
        if ledger is None:
            place, identity = MemoryLedger(budget), uuid.uuid4().hex
        elif isinstance(ledger, str):
            place = open_ledger(ledger, budget, name)
            identity = place.url
        else:
            raise TypeError(
                f"The 'ledger' parameter must be None or a URL. Got {ledger!r}."
            )
        self._attach(place, budget, identity, "")

    def _attach(
        self, ledger: Ledger, budget: Budget | None, identity: str, path: str
    ) -> None:
        self._ledger, self._terms, self._identity = ledger, budget, identity
        self._path = path
        _LIVE[self._key] = self
        _LEDGERS[identity, budget] = ledger

    @classmethod
    def open(cls, url: str, name: str = "default") -> "BudgetAccountant":
        """Return the accountant of a budget that exists in a database.

        Parameters
        ----------
        url : str
            URL of the ledger, as in the constructor.
        name : str
            Name of the budget.
        """
        ledger = open_ledger(url, None, name)
        accountant = cls.__new__(cls)
        accountant._attach(ledger, ledger.budget(), ledger.url, "")
        return accountant

    # --- One accountant, wherever it goes

    @property
    def _key(self) -> tuple[str, Budget, str]:
        return self._identity, self._terms, self._path

    def __copy__(self) -> "BudgetAccountant":
        return self

    def __deepcopy__(self, memo: dict) -> "BudgetAccountant":
        return self

    def __sklearn_clone__(self) -> "BudgetAccountant":
        return self

    def __reduce__(self) -> tuple[Callable, tuple]:
        # A pickle that arrives where the budget is not must not make it anew.
        try:
            self._ledger.budget()
        except BudgetError:
            pass
        # Identity only: running totals would change joblib's hash of an estimator.
        terms = tuple(vars(self._terms).values())
        return _restore, (self._ledger.url, self._identity, terms, self._path)

    # --- The budget

    @property
    def epsilon(self) -> float:
        """Ceiling of epsilon."""
        return self._terms.epsilon

    @property
    def delta(self) -> float:
        """Ceiling of delta."""
        return self._terms.delta

    @property
    def neighboring(self) -> Neighboring:
        """Neighbour relation of the budget."""
        return self._terms.neighboring

    @property
    def composition(self) -> str:
        """How releases are added up."""
        return self._terms.composition

    @property
    def name(self) -> str:
        """Name of the budget."""
        return self._terms.name

    @property
    def ledger(self) -> str | None:
        """URL of the ledger, without a password; None for memory."""
        return self._ledger.url

    # --- Spending

    def spend(
        self,
        event: events.Event | None = None,
        label: str | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
        seeded: bool = False,
    ) -> SpendRecord:
        """Record a release, before it is made, or refuse it.

        Parameters
        ----------
        event : Event
            What will be released. Or give ``epsilon`` and ``delta``.
        label : str, default=None
            What it is for.
        epsilon, delta : float, default=None
            A release of which only these are known; delta 0 where None.
        seeded : bool, default=False
            Whether its noise can be reproduced by who knows the seed.

        Returns
        -------
        SpendRecord
            The line in the ledger. The release may be made now.

        Raises
        ------
        BudgetExceededError
            The budget cannot pay for it. Nothing is recorded.
        """
        event = self._check_event(event, epsilon, delta)
        if label is not None and not isinstance(label, str):
            raise TypeError(f"The 'label' parameter must be a text. Got {label!r}.")
        now = datetime.now(UTC)
        line = Spend(now.isoformat(), event.to_json(), label, bool(seeded), self._path)
        with self._ledger.transaction() as change:
            rules, updates = self._charge(change, event)
            if change.rules is None:
                change.fix_rules(rules.to_json())
            for path, accounts in updates.items():
                change.store(path, accounts.to_json())
            change.record(line)
        return SpendRecord(now, event, label, bool(seeded), self._path)

    def check(
        self,
        event: events.Event | None = None,
        *,
        epsilon: float | None = None,
        delta: float | None = None,
    ) -> bool:
        """Return whether the budget could pay for a release, without spending."""
        event = self._check_event(event, epsilon, delta)
        try:
            self._charge(self._ledger.read(*_line(self._path)), event)
        except BudgetExceededError:
            return False
        return True

    def _check_event(
        self, event: Any, epsilon: float | None, delta: float | None
    ) -> events.Event:
        if event is None:
            if epsilon is None:
                raise TypeError("Give an event, or 'epsilon' (and 'delta').")
            delta = 0.0 if delta is None else check_delta(delta)
            return plain_event(check_epsilon(epsilon), delta, self.neighboring)
        if epsilon is not None or delta is not None:
            raise TypeError("Give an event, or 'epsilon' and 'delta', not both.")
        if not isinstance(event, events.Event):
            raise TypeError(
                "The 'event' parameter must be an event of skdp.events. "
                f"Got {type(event).__name__}."
            )
        if event.neighboring != self.neighboring:
            raise UnsupportedEventError(
                f"The budget {self.name!r} is about neighbours under "
                f"{self.neighboring!r}; the event is stated under "
                f"{event.neighboring!r}. A budget never mixes the two."
            )
        return event

    def _charge(
        self, change: Any, event: events.Event
    ) -> tuple[Rules, dict[str, Accounts]]:
        """Return the rules and the new accounts from this path up to the budget."""
        if change.rules is None:
            rules = choose_rules(self.epsilon, self.delta, self.composition, event)
        else:
            rules = _parse_rules(change.rules)
        growth, path, updates = rules.price(event), self._path, {}
        while True:
            before = _read_accounts(change.accounts(path), rules)
            updates[path] = after = before + growth
            if path == "":
                break
            # A child of `parallel`: its group counts as its largest member.
            group, _, _ = path.rpartition(".")
            before = _read_accounts(change.accounts(group), rules)
            updates[group] = before.maximum(after)
            growth = updates[group].growth(before)
            path, _, _ = group.rpartition("/")
        if not rules.allows(updates[""]):
            left = Remaining(self.epsilon, self.delta)
            if change.rules is not None:
                spent = _read_accounts(change.accounts(""), rules)
                left = remaining(rules, spent, 1, self.neighboring)
            raise refusal(self._terms, event, left)
        return rules, updates

    # --- Reading

    def total(self) -> Reading:
        """Return what was spent so far, by the rule that reads the least epsilon.

        On a child of ``parallel``, what the child spent.
        """
        now = self._ledger.read(self._path)
        accounts = now.accounts(self._path)
        if now.rules is None or accounts is None:
            return Reading(0.0, 0.0, "nothing spent")
        return _parse_rules(now.rules).reading(Accounts.from_json(accounts))

    def remaining(self, k: int = 1) -> Remaining:
        """Return the largest equal (epsilon, delta) of k more releases.

        They are accepted in any case; releases with a tighter event may go further. On
        a child of ``parallel`` it is what is left of the whole budget.
        """
        k = check_integer(k, "k", low=1)
        now = self._ledger.read("")
        if now.rules is None:
            return Remaining(self.epsilon / k, self.delta / k)
        rules = _parse_rules(now.rules)
        spent = _read_accounts(now.accounts(""), rules)
        return remaining(rules, spent, k, self.neighboring)

    @property
    def spends(self) -> list[SpendRecord]:
        """What was spent through this accountant and its children, oldest first."""
        return [
            SpendRecord(
                datetime.fromisoformat(line.time),
                events.from_json(line.event),
                line.label,
                line.seeded,
                line.path,
            )
            for line in self._ledger.spends()
            if line.path == self._path or line.path.startswith(self._path + "/")
        ]

    def group(self, size: int) -> Reading:
        """Return what the total means for ``size`` people together."""
        size, total = check_integer(size, "size", low=1), self.total()
        epsilon, delta = size * total.epsilon, min(1.0, size * total.delta)
        if total.epsilon > 0:
            single = plain_event(total.epsilon, total.delta, self.neighboring)
            delta = events.Group(single, size).profile(epsilon)
        return Reading(epsilon, delta, f"{total.rule}, for a group of {size}")

    def parallel(self, k: int) -> list["BudgetAccountant"]:
        """Return k accountants for k disjoint parts of the rows.

        Each row must belong to one part, which a public rule fixes; under "replace" a
        row must not move to another part. This accountant pays the largest of what
        its children spend, as soon as they spend it.
        """
        k = check_integer(k, "k", low=1)
        group = f"{self._path}/{uuid.uuid4().hex}"
        children = []
        for i in range(k):
            child = type(self).__new__(type(self))
            child._attach(self._ledger, self._terms, self._identity, f"{group}.{i}")
            children.append(child)
        return children

    def to_frame(self) -> Any:
        """Return the spends as a pandas DataFrame."""
        import pandas

        rows = [
            {
                "time": spend.time,
                "label": spend.label,
                "event": str(spend.event),
                "epsilon": asked[0],
                "delta": asked[1],
                "seeded": spend.seeded,
            }
            for spend in self.spends
            for asked in [basic_price(spend.event, self.epsilon, self.delta)]
        ]
        columns = ["time", "label", "event", "epsilon", "delta", "seeded"]
        return pandas.DataFrame(rows, columns=columns)

    def __repr__(self) -> str:
        parts = [f"epsilon={self.epsilon:g}", f"delta={self.delta:g}"]
        if self.neighboring != "replace":
            parts.append(f"neighboring={self.neighboring!r}")
        if self.composition != "adaptive":
            parts.append(f"composition={self.composition!r}")
        if self.ledger is not None:  # reading it may fail, and a repr must not
            parts.append(f"ledger={self.ledger!r}")
        if self.name != "default":
            parts.append(f"name={self.name!r}")
        return f"BudgetAccountant({', '.join(parts)})"

    def __str__(self) -> str:
        return as_text(self)

    def _repr_html_(self) -> str:
        return as_html(self)


def _line(path: str) -> Iterator[str]:
    """Yield a path, its group, the path above it and so on, up to the budget."""
    while path:
        group, _, _ = path.rpartition(".")
        yield path
        yield group
        path, _, _ = group.rpartition("/")
    yield path


def _restore(
    url: str | None, identity: str, terms: tuple, path: str
) -> BudgetAccountant:
    """Return the live accountant of a pickle, or one that is detached."""
    budget = Budget(*terms)
    live = _LIVE.get((identity, budget, path))
    if live is not None:
        return live
    accountant = BudgetAccountant.__new__(BudgetAccountant)
    ledger = _LEDGERS.get((identity, budget))
    if ledger is None and url is None:
        ledger = MemoryLedger(budget)
        ledger._process = None  # the sums stayed in the process that made them
    elif ledger is None:
        ledger = open_ledger(url, budget, budget.name, create=False)
    accountant._attach(ledger, budget, identity, path)
    return accountant
