"""From a loss, bounds and a budget to a plan: how much noise, at which price."""

import math
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from skdp import events
from skdp.calibration import gaussian_shift, objective_shifts
from skdp.erm.descent import GradientPlan
from skdp.erm.losses import Loss
from skdp.erm.perturbation import SLIVER, Noise, ObjectivePlan, OutputPlan
from skdp.events import Event

__all__ = [
    "Budget",
    "Planned",
    "curvature_limits",
    "plan_gradient",
    "plan_objective",
    "plan_output",
    "unit_curvature",
]

# Recipes: chosen on the data sets named in docs/linear_models.rst; they change accuracy
# only, never the guarantee.
_MOST = 20.0  # curvature/ridge by default: some regularisation at any epsilon
_SHARES = {  # of epsilon, for the curvature: by default and at most
    "logistic": (0.9, 0.95),
    "softmax": (0.1, 0.45),
    "one_sided": (0.1, 0.9),
    "two_sided": (0.1, 0.9),
}
_MOST_LOGS = (3.0, 3.5)  # bounds of the latter two: the curvature is exponential there


@dataclass(frozen=True)
class Budget:
    """What one fit may cost.

    Parameters
    ----------
    epsilon, delta : float
        Privacy target.
    neighboring : str
        Neighbour relation.
    look : float
        Share of the budget for a look at the moments before; 0 for none.
    """

    epsilon: float
    delta: float
    neighboring: str
    look: float = 0.0

    @property
    def rows(self) -> int:
        """Number of rows added or removed in one change."""
        return 2 if self.neighboring == "replace" else 1

    def shift(self) -> float:
        """Return the shift of one row that Gaussian noise may have in all."""
        return gaussian_shift(self.epsilon, self.delta) / self.rows


class Planned(NamedTuple):
    """A plan, the noise of the look before it, and what both cost."""

    method: Any
    look: Noise | None
    event: Event


def _compose(*parts: Event | None) -> Event:
    """Compose in one level: Gaussian parts then have an exact price together."""
    flat, counts = [], []
    for part in parts:
        if isinstance(part, events.Composed):
            flat.extend(part.events)
            counts.extend(part.counts)
        elif part is not None:
            flat.append(part)
            counts.append(1)
    if counts == [1]:
        return flat[0]
    return events.Composed(tuple(flat), tuple(counts))


def _joint(method: Any, look: Noise | None, neighboring: str) -> Planned:
    before = None if look is None else look.event(neighboring)
    return Planned(method, look, _compose(before, method.event))


# --- Output


def plan_output(
    loss: Loss, budget: Budget, ridge: float, *, problems: int = 1
) -> Planned:
    """Plan noise on the minimiser: Gaussian, or Laplace for delta = 0."""
    if budget.delta > 0:
        shift = budget.shift()
        look = Noise("gaussian", shift * math.sqrt(budget.look))
        noise = Noise("gaussian", shift * math.sqrt(1 - budget.look))
    else:
        rate = budget.epsilon / budget.rows
        look = Noise("laplace", rate * budget.look)
        noise = Noise("laplace", rate * (1 - budget.look))
    plan = OutputPlan(loss, ridge, noise, budget.neighboring, problems)
    return _joint(plan, look if budget.look else None, budget.neighboring)


# --- Objective


def curvature_limits(loss: Loss, budget: Budget) -> tuple[float, float]:
    """Return the default and the largest curvature/ridge of a theorem."""
    epsilon = budget.epsilon / budget.rows
    if budget.delta == 0:  # the theorem for Laplace noise is about its own share
        epsilon *= 1 - budget.look - SLIVER
    default, largest = _SHARES[loss.theorem]
    if loss.theorem in ("logistic", "softmax"):
        return min(default * epsilon, _MOST), largest * epsilon
    return (
        math.expm1(min(default * budget.epsilon, _MOST_LOGS[0])),
        math.expm1(min(largest * budget.epsilon, _MOST_LOGS[1])),
    )


def unit_curvature(loss: Loss, norm: float) -> float:
    """Return the numerator of the curvature in the loss's theorem."""
    if loss.theorem in ("logistic", "softmax"):
        return norm**2
    return loss.smoothness(norm)


def plan_objective(
    loss: Loss,
    norm: float,
    budget: Budget,
    ridge: float,
    *,
    problems: int = 1,
    calibration: str = "exact",
) -> Planned:
    """Plan a random linear term in the objective."""
    if loss.theorem is None:  # such a loss is in no estimator
        raise ValueError(
            f"method='objective' has no theorem for the loss {type(loss).__name__}."
        )
    curvature = unit_curvature(loss, norm) / ridge
    if budget.delta == 0:
        return _pure_objective(loss, norm, budget, ridge, calibration, problems)
    if calibration == "cms":
        raise ValueError(
            f"calibration='cms' is pure: it needs delta=0. Got delta={budget.delta!r}."
        )
    if calibration == "kst":
        if problems > 1 or budget.look:  # no estimator asks for it
            raise ValueError("calibration='kst' is for one problem, without a look.")
        return _kst_objective(loss, norm, budget, ridge)
    if problems > 1:
        return _many_objectives(loss, budget, ridge, curvature, problems)
    share = budget.look + SLIVER
    shift, gaussian = objective_shifts(
        budget.epsilon,
        budget.delta,
        curvature,
        loss=loss.theorem,
        classes=loss.outputs if loss.theorem == "softmax" else 2,
        gaussian_share=share,
        neighboring=budget.neighboring,
    )
    event = events.ObjectivePerturbation(
        shift,
        curvature,
        loss.theorem,
        loss.outputs if loss.theorem == "softmax" else 2,
        gaussian,
        budget.neighboring,
    )
    return _with_gaussians(loss, budget, ridge, shift, gaussian, event)


def _with_gaussians(
    loss: Loss,
    budget: Budget,
    ridge: float,
    shift: float,
    gaussian: float,
    event: Event,
    problems: int = 1,
) -> Planned:
    """Split the shift of the Gaussian releases between the look and the sliver."""
    share = budget.look + SLIVER
    sliver = Noise("gaussian", gaussian * math.sqrt(SLIVER / share))
    look = Noise("gaussian", gaussian * math.sqrt(budget.look / share))
    # For softmax the event's shift is of the row, and its gradient is slope times it.
    noise = Noise("gaussian", shift * (loss.slope if loss.outputs > 1 else 1.0))
    plan = ObjectivePlan(loss, ridge, noise, sliver, event, problems)
    return Planned(plan, look if budget.look else None, event)


def _pure_objective(
    loss: Loss,
    norm: float,
    budget: Budget,
    ridge: float,
    calibration: str,
    problems: int,
) -> Planned:
    if loss.theorem != "logistic":
        raise ValueError(
            "The 'delta' parameter must be positive for method='objective' with this "
            "loss: the theorem for delta=0 covers the binary logistic loss only. Use "
            "delta > 0, method='output' or method='gradient'. Got delta=0."
        )
    if calibration == "kst":
        raise ValueError("calibration='kst' needs delta > 0. Got delta=0.")
    rest = spent = (1 - budget.look - SLIVER) * budget.epsilon
    # What the theorem assumes; no estimator asks for anything else.
    most = math.inf if calibration == "cms" else rest / budget.rows * (1 + 1e-12)
    if problems > 1 or norm**2 / ridge > most:
        raise ValueError(
            "method='objective' with delta=0 needs one problem, and a regularisation "
            f"of at least {norm**2 / most:.6g}. Got {problems} and {ridge:.6g}."
        )
    if calibration == "cms":
        rest -= 2 * math.log1p(norm**2 / (4 * ridge))
        if rest <= 0:
            largest = 4 * math.expm1(spent / 2) / norm**2
            raise ValueError(
                "calibration='cms' does not allow this 'C': its proof leaves nothing "
                f"for the noise. The largest allowed C is below {largest:.6g}."
            )
    rate = budget.epsilon / budget.rows
    parts = [
        events.Pure(spent, budget.neighboring),
        events.Laplace(1 / (SLIVER * budget.epsilon), budget.neighboring),
    ]
    if budget.look:
        look_epsilon = budget.look * budget.epsilon
        parts.append(events.Laplace(1 / look_epsilon, budget.neighboring))
    plan = ObjectivePlan(
        loss,
        ridge,
        # A grid finer than 2**-40 of the scale: the discrete law is within that of the
        # continuous one, which the theorem is about.
        Noise("laplace", rest / budget.rows * (1 - 2.0**-30)),
        Noise("laplace", SLIVER * rate),
        _compose(*parts),
    )
    look = Noise("laplace", budget.look * rate) if budget.look else None
    return Planned(plan, look, plan.event)


def _kst_objective(loss: Loss, norm: float, budget: Budget, ridge: float) -> Planned:
    """Calibrate as Kifer, Smith and Thakurta (2012) do; priced by our own curve."""
    inner = 8 * math.log(2 / budget.delta) + 4 * budget.epsilon
    shift = budget.epsilon / (budget.rows * math.sqrt(inner))
    gaussian = shift * math.sqrt(SLIVER)
    classes = loss.outputs if loss.theorem == "softmax" else 2
    event = events.ObjectivePerturbation(
        shift / (loss.slope if loss.outputs > 1 else 1.0),
        unit_curvature(loss, norm) / ridge,
        loss.theorem,
        classes,
        gaussian,
        budget.neighboring,
    )
    if event.profile(budget.epsilon) > budget.delta:
        raise ValueError(
            f"calibration='kst' cannot be confirmed for epsilon={budget.epsilon:g}, "
            f"delta={budget.delta:g}, {classes} classes and a regularisation of "
            f"{ridge:.3g}: by the bound of skdp its noise costs more. Use "
            "calibration='exact'."
        )
    return _with_gaussians(loss, budget, ridge, event.shift, gaussian, event)


def _many_objectives(
    loss: Loss, budget: Budget, ridge: float, curvature: float, problems: int
) -> Planned:
    """Plan one binary problem for each class, all on the same rows."""
    share = budget.look + SLIVER

    def event(total: float) -> Event:
        rate = total * math.sqrt(share) * budget.rows
        one = events.ObjectivePerturbation(
            total * math.sqrt((1 - share) / problems),
            curvature,
            loss.theorem,
            2,
            0.0,
            budget.neighboring,
        )
        joint = events.Gaussian(1 / rate, budget.neighboring)
        return events.Composed((one, joint), (problems, 1))

    high = budget.shift()
    low = high / 64
    if event(low).profile(budget.epsilon) > budget.delta:
        raise ValueError(
            f"method='objective' cannot share epsilon={budget.epsilon:g} over "
            f"{problems} classes with a regularisation of {ridge:.3g}. Use a larger "
            "epsilon, fewer classes, more regularisation (a smaller 'C'), "
            "method='gradient' or method='output'."
        )
    for _ in range(30):
        middle = math.sqrt(low * high)
        if event(middle).profile(budget.epsilon) <= budget.delta:
            low = middle
        else:
            high = middle
    shift = low * math.sqrt((1 - share) / problems)
    gaussian = low * math.sqrt(share)
    return _with_gaussians(loss, budget, ridge, shift, gaussian, event(low), problems)


# --- Gradient


def plan_gradient(
    loss: Loss,
    norm: float,
    budget: Budget,
    *,
    steps: int,
    batches: str,
    sampling_rate: float,
    clip: float | None,
    step_size: float | None,
    problems: int = 1,
) -> Planned:
    """Plan noisy gradient steps."""
    largest = loss.lipschitz(norm) * math.sqrt(problems)
    bound = min(clip or math.inf, largest)
    if not math.isfinite(bound):  # such a loss is in no estimator
        raise ValueError(
            f"The loss {type(loss).__name__} has no bounded gradient: give 'clip'."
        )
    used = 1 if batches == "disjoint" else steps
    if budget.delta == 0:
        if batches == "poisson":
            raise ValueError(
                "batches='poisson' needs delta > 0; for delta=0 use 'full' or "
                "'disjoint'."
            )
        rate = budget.epsilon / budget.rows
        look = Noise("laplace", rate * budget.look)
        step = Noise("laplace", rate * (1 - budget.look) / used)
    else:
        shift = budget.shift()
        look = Noise("gaussian", shift * math.sqrt(budget.look))
        step = Noise("gaussian", shift * math.sqrt((1 - budget.look) / used))
    plan = GradientPlan(
        loss, bound, step, steps, batches, sampling_rate, step_size, budget.neighboring
    )
    look = look if budget.look else None
    if batches == "poisson":
        plan = _calibrate_poisson(plan, look, budget)
    return _joint(plan, look, budget.neighboring)


def _calibrate_poisson(
    plan: GradientPlan, look: Noise | None, budget: Budget
) -> GradientPlan:
    """Return the plan with the least noise that still fits the budget.

    Sampling allows a larger shift a step than the full batch does.
    """

    def fits(rate: float) -> bool:
        trial = replace(plan, noise=Noise("gaussian", rate))
        joint = _joint(trial, look, budget.neighboring)
        return joint.event.profile(budget.epsilon) <= budget.delta

    low = plan.noise.rate
    high = min(low / plan.sampling_rate, 1e3) * 1.5
    while not fits(low):
        low, high = low / 2, low
    for _ in range(7):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if fits(middle) else (low, middle)
    return replace(plan, noise=Noise("gaussian", low))
