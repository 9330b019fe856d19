"""What every private estimator shares: the order of ``fit``, and its guarantee.

The order is fixed here, once: validate, plan the event, spend, release, publish.
"""

import hashlib
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from skdp.events import Event
from skdp.exceptions import PrivacyWarning
from skdp.noise import RandomBits
from skdp.validation import (
    Neighboring,
    check_delta,
    check_epsilon,
    check_integer,
    check_neighboring,
)

try:  # scikit-learn 1.9 and later
    from sklearn.callback import CallbackSupportMixin, with_callbacks

    CALLBACKS = True
except ImportError:
    CALLBACKS = False

    class CallbackSupportMixin:  # type: ignore[no-redef]
        """Stands in where scikit-learn has no callbacks."""

    def with_callbacks(method: Any) -> Any:
        """Return the method as it is: there are no callbacks."""
        return method


__all__ = ["PrivacyGuarantee", "PrivateEstimator"]

# Under "add_remove", bounds of the number of rows without a hint, and with a small one.
_MANY_ROWS, _FEW_ROWS = 2**24, 2**16

_CHANGE = {
    "replace": "one row is replaced by any other (the number of rows is public)",
    "add_remove": "one row is added or removed (the number of rows is private)",
}


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a fitted estimator guarantees; prints as a sentence.

    Parameters
    ----------
    epsilon, delta : float
        The privacy parameters.
    neighboring : {"replace", "add_remove"}
        Which data sets are neighbours.
    event : Event
        What was released, in numbers.
    assumptions : tuple of str
        What the guarantee takes for granted.
    seeded : bool
        Whether the noise can be reproduced by who knows the seed.
    """

    epsilon: float
    delta: float
    neighboring: Neighboring
    event: Event
    assumptions: tuple[str, ...] = ()
    seeded: bool = False

    def __str__(self) -> str:
        """Return the guarantee in words."""
        price = f"epsilon = {self.epsilon:g}"
        if self.delta:
            price += f", delta = {self.delta:g}"
        text = f"Differentially private with {price}, when {_CHANGE[self.neighboring]}."
        if self.assumptions:
            text += f" Assumes {'; '.join(self.assumptions)}."
        if self.seeded:
            text += (
                " The noise came from a seed: it protects nobody from those who know "
                "the seed."
            )
        return text


def digest(*parts: Any) -> bytes:
    """Return a hash of arrays and texts, to give every fit noise of its own."""
    state = hashlib.blake2b(digest_size=16)
    for part in parts:
        if sparse.issparse(part):
            inner = (part.data, part.indices, part.indptr, str(part.shape))
            state.update(digest(*inner))
        elif isinstance(part, np.ndarray) and part.dtype != object:
            state.update(str((part.shape, part.dtype)).encode())
            state.update(np.ascontiguousarray(part).data)
        else:
            state.update(repr(part).encode())
        state.update(b"|")
    return state.digest()


def _shown(value: Any) -> str:
    """Return a parameter as text, in full: numpy's own repr leaves numbers out."""
    if hasattr(value, "tolist"):
        return repr(value.tolist())
    if isinstance(value, (list, tuple)):
        return repr([_shown(item) for item in value])
    return repr(value)


def warn_private(message: str) -> None:
    """Warn that something is not covered by the guarantee."""
    # Up to the caller of fit: warn_private, _validate, _fit, perhaps a decorator, fit.
    level = 6 if CALLBACKS else 5
    warnings.warn(message, PrivacyWarning, stacklevel=level)


class PrivateEstimator(CallbackSupportMixin):
    """Mixin of all private estimators: runs the steps of ``fit`` in their order.

    A subclass defines ``_validate(X, y)``, which returns its data in a canonical form
    or raises; ``_plan(n_samples, n_features, ...)``, which sees public quantities only
    and returns a plan with an ``event``; and ``_release(plan, data, bits)``, which
    sets the fitted attributes.
    """

    epsilon: float
    delta: float
    neighboring: str
    accountant: Any
    random_state: Any

    def _check_budget(self) -> None:
        check_epsilon(self.epsilon)
        check_delta(self.delta)
        check_neighboring(self.neighboring)
        accountant = self.accountant
        if accountant is not None and not hasattr(accountant, "spend"):
            raise TypeError(
                "The 'accountant' parameter must be None or a BudgetAccountant. "
                f"Got {accountant!r}."
            )

    @with_callbacks
    def _fit(self, X: Any, y: Any = None) -> "PrivateEstimator":
        """Run the fit: validate, plan, spend, release, publish."""
        self._check_budget()
        with np.errstate(all="ignore"):  # numpy's warnings would tell about the data
            data = self._validate(X, y)
        plan = self._plan_for(data)
        context = b""
        if self.random_state is not None:
            # One seed, but other noise for other data, folds, classes or parameters.
            shown = sorted(
                (name, _shown(value))
                for name, value in self.get_params(deep=False).items()
                if name not in ("accountant", "random_state")
            )
            context = digest(type(self).__name__, shown, plan.event, *data.arrays())
        bits = RandomBits(self.random_state, context)
        sampling = RandomBits(self.random_state, b"samples" + context)
        try:
            self._callback_begin(plan)
            if self.accountant is not None:
                label = type(self).__name__
                self.accountant.spend(plan.event, label, seeded=bits.seeded)
            with np.errstate(all="ignore"):
                self._release(plan, data, bits, sampling)
            self._callback_end()
        finally:
            self.__dict__.pop("_progress_context", None)
        self.privacy_ = PrivacyGuarantee(
            float(self.epsilon),
            float(self.delta),
            self.neighboring,
            plan.event,
            self._assumptions(),
            bits.seeded,
        )
        return self

    # --- Progress, without data

    def _callback_begin(self, plan: Any) -> None:
        self._progress_context = None
        if hasattr(self, "_init_callback_context") and getattr(
            self, "_skl_callbacks", None
        ):
            context = self._init_callback_context(max_subtasks=plan.subtasks)
            context.call_on_fit_task_begin(estimator=self)
            self._progress_context = context

    def _callback_end(self) -> None:
        context = self.__dict__.pop("_progress_context", None)
        if context is not None:
            context.call_on_fit_task_end(estimator=self)

    def _callback_step(self, name: str) -> bool:
        """Tell the callbacks about a step; they get no data and no parameters."""
        context = self.__dict__.get("_progress_context")
        if context is None:
            return False
        inner = context.subcontext(task_name=name)
        inner.call_on_fit_task_begin(estimator=self)
        return bool(inner.call_on_fit_task_end(estimator=self))

    # --- The number of rows, where it must have a public bound

    def _public_rows(self, n_samples: int) -> float:
        """Return a public bound of the number of rows."""
        if self.neighboring == "replace":
            return float(n_samples)
        hint = getattr(self, "n_samples_hint", None)
        return float(_MANY_ROWS if hint is None else max(2 * hint, _FEW_ROWS))

    def _check_rows(self, n_samples: int) -> None:
        """Refuse more rows than the public bound; it bounds rounding errors."""
        most = self._public_rows(n_samples)
        if n_samples > most:
            hint = self.n_samples_hint
            raise ValueError(
                f"More than {most:,.0f} rows under neighboring='add_remove': give "
                "their approximate number, which must be public, as "
                f"'n_samples_hint'. Got n_samples_hint={hint!r}."
            )

    def _assumptions(self) -> tuple[str, ...]:
        return ()


def check_hint(value: Any) -> int | None:
    """Return a public number of rows, or None."""
    return None if value is None else check_integer(value, "n_samples_hint", low=1)
