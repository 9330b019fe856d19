"""Linear models that minimise a loss, by output, objective or gradient perturbation."""

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from skdp.base import PrivateEstimator, check_hint
from skdp.erm.losses import Loss
from skdp.erm.perturbation import Bounds, Noise
from skdp.erm.plans import (
    Budget,
    Planned,
    curvature_limits,
    plan_gradient,
    plan_objective,
    plan_output,
    unit_curvature,
)
from skdp.erm.rows import BLOCK, rounding
from skdp.erm.standardize import (
    Moments,
    RowMap,
    column_variances,
    look_sums,
    moments_map,
    plain_map,
    read_moments,
)
from skdp.inputs import validated
from skdp.validation import check_integer, check_option, check_real

__all__ = ["LinearPrivate"]

_LOOK = 0.1  # share of the budget for the moments
_COUNT_LOOK = 0.01  # and for a mere count
_EFFECT = 1.5  # typical size of a coefficient, in rows of norm one
_INTERCEPT = 4.0  # and of the intercept
_REACH, _REACH_LEVEL = 1.25, 0.002  # where rows are clipped, at which noise level
_CURVATURE = 0.6  # typical second derivative of a loss, in terms of the largest


@dataclass(frozen=True)
class Data:
    """Validated data: rows as given, and encoded targets."""

    X: Any
    y: np.ndarray
    classes: np.ndarray | None = None

    def arrays(self) -> tuple[Any, ...]:
        """Return what tells one data set from another."""
        return self.X, self.y


@dataclass(frozen=True)
class Plan:
    """Everything about a fit that is fixed before the data is touched."""

    loss: Loss
    planned: Planned
    unit: float
    norm: float
    ridge: float
    n_features: int
    n_rows: float
    look: str | None
    problems: int
    subtasks: int

    @property
    def event(self) -> Any:
        """What the fit costs."""
        return self.planned.event


def _down(value: float) -> str:
    """Return a number with six digits, rounded down."""
    unit = 10.0 ** (math.floor(math.log10(value)) - 5)
    return f"{math.floor(value / unit * (1 - 1e-9)) * unit:.6g}"


class LinearPrivate(PrivateEstimator):
    """Mixin: how a linear model with a loss is fitted privately."""

    # --- Public quantities

    def _loss(self, outputs: int) -> tuple[Loss, int]:
        """Return the loss, and the number of problems that share the rows."""
        raise NotImplementedError

    def _check_parameters(self) -> None:
        check_option(self.method, "method", ("objective", "output", "gradient"))
        for name in ("data_norm", "intercept_scaling"):
            value = getattr(self, name)
            check_real(value, name, low=1e-50, high=1e50, closed="both")
        if self.C is not None:
            check_real(self.C, "C", low=0)
        check_option(self.row_norm, "row_norm", ("clip", "normalize"))
        if self.scale is not None:
            check_option(self.scale, "scale", ("auto", "private"))
        check_option(self.calibration, "calibration", ("exact", "kst", "cms"))
        check_hint(self.n_samples_hint)
        check_integer(self.steps, "steps", low=1)
        check_option(self.batches, "batches", ("full", "poisson", "disjoint"))
        check_real(self.sampling_rate, "sampling_rate", low=0, high=1, closed="right")
        for name in ("clip", "step_size"):
            if getattr(self, name) is not None:
                check_real(getattr(self, name), name, low=0)
        if self.calibration != "exact" and self.method != "objective":
            raise ValueError(
                f"calibration={self.calibration!r} is for method='objective'. "
                f"Got method={self.method!r}."
            )

    def _looks(self) -> str | None:
        """Return what is looked at before: "moments", "count" or None."""
        if self.scale == "private" and self.calibration != "exact":
            raise ValueError(
                f"calibration={self.calibration!r} is for lessons: it needs scale=None."
            )
        wanted = self.method != "output" and self.calibration == "exact"
        if self.scale == "private" or (self.scale == "auto" and wanted):
            return "moments"
        private_count = self.neighboring == "add_remove" and self.n_samples_hint is None
        return "count" if self.method == "gradient" and private_count else None

    def _plan(self, n_samples: int, n_features: int, outputs: int = 1) -> Plan:
        """Return the plan; under "add_remove" it does not depend on n_samples."""
        self._check_budget()
        self._check_parameters()
        look = self._looks()
        budget = Budget(
            float(self.epsilon),
            float(self.delta),
            self.neighboring,
            {"moments": _LOOK, "count": _COUNT_LOOK, None: 0.0}[look],
        )
        loss, problems = self._loss(outputs)
        if look == "moments":
            norm = 1.0 + 1e-9
        else:
            intercept = self.intercept_scaling if self.fit_intercept else 0.0
            norm = math.hypot(self.data_norm, intercept) * (1 + 1e-9)
        n_rows = self._public_rows(n_samples)
        ridge = self._ridge(loss, norm, budget, n_features, n_rows, problems)
        planned = self._method_plan(loss, norm, budget, ridge, problems)
        return Plan(
            loss,
            planned,
            float(self.data_norm),
            norm,
            ridge,
            n_features,
            n_rows,
            look,
            problems,
            self.steps if self.method == "gradient" else 0,
        )

    def _plan_for(self, data: Data) -> Plan:
        """Return the plan for validated data."""
        n_samples, n_features = data.X.shape
        public = {} if data.classes is None else {"n_classes": data.classes.size}
        plan = self._plan(n_samples, n_features, **public)
        self._check_rows(n_samples)
        if self.method != "gradient":
            width = n_features + bool(self.fit_intercept)
            bounds = Bounds(plan.norm, width, plan.n_rows)
            plan.planned.method.error(bounds, plan.norm)
        return plan

    def _method_plan(
        self, loss: Loss, norm: float, budget: Budget, ridge: float, problems: int
    ) -> Planned:
        if self.method == "output":
            return plan_output(loss, budget, ridge, problems=problems)
        if self.method == "objective":
            return plan_objective(
                loss,
                norm,
                budget,
                ridge,
                problems=problems,
                calibration=self.calibration,
            )
        clip = self.clip
        if clip is None and self._looks() == "moments":
            # Few gradients come near the bound; half the noise is worth more.
            clip = loss.lipschitz(norm) * math.sqrt(problems) / 2
        return plan_gradient(
            loss,
            norm,
            budget,
            steps=self.steps,
            batches=self.batches,
            sampling_rate=float(self.sampling_rate),
            clip=clip,
            step_size=self.step_size,
            problems=problems,
        )

    def _ridge(
        self,
        loss: Loss,
        norm: float,
        budget: Budget,
        n_features: int,
        n_rows: float,
        problems: int,
    ) -> float:
        """Return the smallest regularisation of a column."""
        curvature = unit_curvature(loss, norm)
        default, largest = curvature_limits(loss, budget)
        if self.calibration == "kst":
            needed = 2 * loss.smoothness(norm) * budget.rows / budget.epsilon
            default = largest = curvature / needed
        elif self.calibration == "cms":
            default, largest = budget.epsilon / 2, math.inf
        if self.C is not None:
            if self.method == "objective" and self.C * curvature > largest * (1 + 1e-9):
                most = _down(largest / curvature)
                raise ValueError(
                    f"The 'C' parameter must be at most {most} for "
                    "method='objective' with this epsilon, data_norm and neighboring: "
                    "the proof needs that much regularisation. "
                    f"Got {self.C!r}."
                )
            return 1 / self.C
        width = n_features + bool(self.fit_intercept)
        if self.method == "output":
            return self._output_ridge(loss, norm, budget, width, n_rows, problems)
        ridge = curvature / default
        if self._looks() != "moments" and self.calibration == "exact":
            sigma = loss.lipschitz(norm) * (
                1 / budget.shift() if budget.delta else width / budget.epsilon
            )
            ridge = max(ridge, sigma * math.sqrt(width) / (20 * norm))
        return ridge

    def _output_ridge(
        self,
        loss: Loss,
        norm: float,
        budget: Budget,
        width: int,
        n_rows: float,
        problems: int,
    ) -> float:
        """Balance the bias of the ridge with the noise, for coefficients of size 5."""
        known = self.neighboring == "replace" or self.n_samples_hint is not None
        count = 10_000.0
        if known:
            count = float(self.n_samples_hint or n_rows)
        if budget.delta:
            spread = 1 / budget.shift() ** 2
        else:
            spread = 2 * width * (budget.rows / budget.epsilon) ** 2
        size = width * loss.outputs * problems
        noise = spread * size * loss.lipschitz(norm) ** 2
        expected = _CURVATURE * loss.smoothness(norm) * count
        return (expected * noise / (5 / norm) ** 2) ** (1 / 3)

    def privacy_cost(self, n_samples: int, n_features: int, **public: Any) -> Any:
        """Return the event that a fit would spend, without spending it.

        Parameters
        ----------
        n_samples, n_features : int
            Shape of the data.

        Returns
        -------
        Event
            What the fit would release. ``event.epsilon(delta)`` is its price.
        """
        check_integer(n_samples, "n_samples", low=1)
        check_integer(n_features, "n_features", low=1)
        return self._plan(n_samples, n_features, **public).event

    # --- The release

    def _release(self, plan: Plan, data: Data, bits: Any, sampling: Any) -> None:
        moments, count, n_rows = self._look(plan, data.X, bits)
        rows_map = self._map(plan, moments, count)
        rows = rows_map.rows(data.X)
        bounds = Bounds(plan.norm, rows.shape[1], n_rows)
        ridge = self._column_ridge(plan, moments, rows_map, count, bounds)
        targets = self._targets(data.y, plan)
        # The theorems hold for any margin: it may follow what was released.
        loss = self._with_margin(plan, count)
        method = replace(plan.planned.method, loss=loss)
        if self.method == "gradient":
            stacked = targets[0] if len(targets) == 1 else np.stack(targets, axis=1)
            w = method.release(
                rows, stacked, ridge, bounds, count, bits, sampling, self._progress
            )
        else:
            w = method.release(rows, targets, ridge, bounds, bits)
        std = None
        if self.method == "output":
            std = method.std(bounds, rows.magnitude)
        if data.classes is not None:
            self.classes_ = data.classes
        self._publish(plan, rows_map, w, std)

    def _look(
        self, plan: Plan, X: Any, bits: Any
    ) -> tuple[Moments | None, float, float]:
        """Return moments, a number of rows to divide by, and a bound of it."""
        noise: Noise | None = plan.planned.look
        n_samples = X.shape[0]
        known = plan.n_rows
        if self.neighboring == "add_remove" and self.n_samples_hint is not None:
            known = float(self.n_samples_hint)
        if plan.look is None:
            return None, known, plan.n_rows
        terms = BLOCK + plan.n_rows / 256 + plan.n_features
        error = 2 * rounding(terms) * plan.n_rows
        if plan.look == "count":
            found = noise.add(np.array([float(n_samples)]), 1.0, bits)
            return None, max(float(found[0]), 1.0), plan.n_rows
        order = 2 if noise.kind == "gaussian" else 1
        sums = look_sums(X, plan.unit, order)
        # Laplace noise is for an L1 norm of one, which the rows have by themselves.
        sensitivity = 1.0 + error
        if noise.kind == "laplace":
            sensitivity = (1.0 + error * sums.size) / math.sqrt(sums.size)
        std = noise.std(sensitivity, sums.size)
        moments = read_moments(noise.add(sums, sensitivity, bits), std, plan.unit)
        if self.neighboring == "replace" or self.n_samples_hint is not None:
            return moments, known, plan.n_rows
        if noise.kind == "laplace":  # its tails are too heavy for a useful bound
            return moments, moments.count, plan.n_rows
        return moments, moments.count, min(moments.count_bound, plan.n_rows)

    def _noise_std(self, plan: Plan) -> float:
        """Return the noise on the summed gradient, all steps taken together."""
        method, width = plan.planned.method, plan.n_features + bool(self.fit_intercept)
        size = width * plan.loss.outputs * plan.problems
        if self.method != "gradient":
            return method.noise.std(plan.loss.lipschitz(plan.norm), size)
        used = 1 if self.batches == "disjoint" else self.steps
        share = method.sampling_rate if self.batches == "poisson" else 1.0
        return method.noise.std(method.clip, size) / (share * math.sqrt(used))

    def _map(self, plan: Plan, moments: Moments | None, count: float) -> RowMap:
        normalize = self.row_norm == "normalize"
        if moments is None:
            intercept = float(self.intercept_scaling) if self.fit_intercept else None
            return plain_map(plan.n_features, plan.unit, intercept, normalize)
        return moments_map(
            moments,
            plan.unit,
            self.fit_intercept,
            float(self.intercept_scaling),
            normalize,
            self._reach(plan, count),
            self._power(plan, count),
        )

    def _power(self, plan: Plan, count: float) -> float:
        """Return how far 0/1 columns are standardised: rare ones are mostly noise."""
        if self.row_norm == "normalize":
            return 0.0
        level = self._noise_level(plan, count)
        return 0.25 + 0.15 * min(max(math.log2(0.0012 / max(level, 1e-12)), 0.0), 1.0)

    def _noise_level(self, plan: Plan, count: float) -> float:
        """Return the norm of the noise, in terms of the largest summed gradient."""
        width = (plan.n_features + 1) * plan.loss.outputs * plan.problems
        return self._noise_std(plan) * math.sqrt(width) / max(count, 1.0)

    def _with_margin(self, plan: Plan, count: float) -> Loss:
        """Return the loss of the fit; only some have a margin."""
        return plan.loss

    def _reach(self, plan: Plan, count: float) -> float:
        """Return where to clip, in root-mean-square norms: lower for more noise."""
        level = self._noise_level(plan, count)
        return min(max(_REACH * (level / _REACH_LEVEL) ** -0.2, 0.7), _REACH)

    def _column_ridge(
        self,
        plan: Plan,
        moments: Moments | None,
        rows_map: RowMap,
        count: float,
        bounds: Bounds,
    ) -> np.ndarray:
        """Return the regularisation of each column: more where there is less signal."""
        ridge = np.full(bounds.width, plan.ridge)
        if moments is None or self.C is not None or self.method == "output":
            return ridge
        variances = column_variances(moments, rows_map, plan.unit)
        std = self._noise_std(plan)
        curvature = _CURVATURE * plan.loss.bend * count * variances
        effect = np.full(bounds.width, _EFFECT)
        if self.fit_intercept:
            effect[-1] = _INTERCEPT
        wanted = std**2 / (np.maximum(curvature, 1e-12) * effect**2)
        return np.clip(wanted, plan.ridge, 1e6 * plan.ridge)

    def _targets(self, y: np.ndarray, plan: Plan) -> list[np.ndarray]:
        return [y]

    def _progress(self, step: int, w: np.ndarray) -> bool:
        if self.verbose:
            print(f"[{type(self).__name__}] step {step + 1} of {self.steps}")
        return self._callback_step("gradient-step")

    def _publish(
        self, plan: Plan, rows_map: RowMap, w: np.ndarray, std: float | None
    ) -> None:
        if self.row_norm == "normalize":
            # Rows of norm one; coef_ and intercept_ are the model on them.
            self._map_ = replace(rows_map, norm=1.0, intercept=None)
            coef, intercept = w[: plan.n_features], 0.0
            if self.fit_intercept:
                intercept = rows_map.intercept * w[-1]
            factor = np.full(plan.n_features, rows_map.norm)
            coef = coef * (factor if w.ndim == 1 else factor[:, None])
        else:
            self.__dict__.pop("_map_", None)
            coef, intercept = rows_map.to_user(w)
            factor = rows_map.scale * (rows_map.norm / rows_map.radius)
        self.coef_ = coef.T if coef.ndim == 2 else coef
        self.intercept_ = intercept
        self.__dict__.pop("coef_std_", None)
        if std is not None:
            self.coef_std_ = np.broadcast_to(std * factor, self.coef_.shape).copy()

    def _scores(self, X: Any) -> np.ndarray:
        """Return the scores of rows, one column for each coefficient vector."""
        check_is_fitted(self, "coef_")
        X = validated(self, X, reset=False)
        coef = np.atleast_2d(self.coef_)
        if hasattr(self, "_map_"):
            return self._map_.scores(X, coef.T) + self.intercept_
        return np.asarray(X @ coef.T) + self.intercept_

    def _assumptions(self) -> tuple[str, ...]:
        found = ["every person is one row"]
        if self.scale is None or self._looks() != "moments":
            found.append(f"data_norm={self.data_norm:g} was chosen without the data")
        else:
            found.append("the parameters were chosen without the data")
        if self.neighboring == "add_remove":
            most = self._public_rows(0)
            found.append(f"there are at most {most:,.0f} rows")
        return tuple(found)
