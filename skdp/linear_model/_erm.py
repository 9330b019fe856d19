"""Linear models that minimise a loss, by output, objective or gradient perturbation."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
from scipy import sparse
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
from skdp.linear_model._plan import Data, Plan, assumptions, check_largest_c
from skdp.linear_model._recipes import (
    clipping_reach,
    column_ridge,
    output_ridge,
    plain_ridge,
    scaling_power,
)
from skdp.validation import check_bool, check_integer, check_option, check_real

__all__ = ["LinearPrivate"]

# Recipes: chosen on the data sets named in docs/linear_models.rst; they change accuracy
# only, never the guarantee.
_LOOK = 0.1  # share of the budget for the moments
_COUNT_LOOK = 0.01  # and for a mere count
_CLIP = 0.5  # of the largest gradient, with private scaling: few come near it


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
        for name in ("C", "clip", "step_size"):
            check_real(getattr(self, name), name, low=0, none=True)
        check_bool(self.fit_intercept, "fit_intercept")
        check_option(self.row_norm, "row_norm", ("clip", "normalize"))
        check_option(self.scale, "scale", ("auto", "private"), none=True)
        check_option(self.calibration, "calibration", ("exact", "kst", "cms"))
        check_hint(self.n_samples_hint)
        check_integer(self.steps, "steps", low=1)
        check_option(self.batches, "batches", ("full", "poisson", "disjoint"))
        check_real(self.sampling_rate, "sampling_rate", low=0, high=1, closed="right")
        if self.calibration != "exact" and self.method != "objective":
            raise ValueError(
                f"calibration={self.calibration!r} is for method='objective'. "
                f"Got method={self.method!r}."
            )
        if self.calibration != "exact" and self.scale == "private":
            raise ValueError(
                f"calibration={self.calibration!r} is for lessons: it needs scale=None "
                "or 'auto'. Got scale='private'."
            )

    def _look_kind(self) -> str | None:
        """Return what is looked at before: "moments", "count" or None."""
        wanted = self.method != "output" and self.calibration == "exact"
        if self.scale == "private" or (self.scale == "auto" and wanted):
            return "moments"
        private_count = self.neighboring == "add_remove" and self.n_samples_hint is None
        return "count" if self.method == "gradient" and private_count else None

    def _plan(self, n_samples: int, n_features: int, outputs: int = 1) -> Plan:
        """Return the plan; under "add_remove" it does not depend on n_samples."""
        self._check_budget()
        self._check_parameters()
        look = self._look_kind()
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
        width = n_features + bool(self.fit_intercept)
        ridge = self._ridge(loss, norm, budget, width, n_rows, problems)
        planned = self._method_plan(loss, norm, budget, ridge, problems)
        return Plan(
            loss,
            planned,
            float(self.data_norm),
            norm,
            ridge,
            n_features,
            bool(self.fit_intercept),
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
            hardest = replace(plan.planned.method, loss=self._hardest_loss(plan))
            hardest.check(Bounds(plan.norm, plan.width, plan.n_rows))
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
        if clip is None and self._look_kind() == "moments":
            clip = _CLIP * loss.lipschitz(norm) * math.sqrt(problems)
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
        width: int,
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
            if self.method == "objective":
                check_largest_c(self.C, largest / curvature)
            return 1 / self.C
        if self.method == "output":
            count = n_rows if self.neighboring == "replace" else self.n_samples_hint
            return output_ridge(loss, norm, budget, width, problems, count)
        ridge = curvature / default
        if self._look_kind() != "moments" and self.calibration == "exact":
            ridge = max(ridge, plain_ridge(loss, norm, budget, width))
        return ridge

    def privacy_cost(self, n_samples: int, n_features: int) -> Any:
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
        return self._plan(n_samples, n_features).event

    # --- The release

    def _release(self, plan: Plan, data: Data, bits: Any, sampling: Any) -> None:
        moments, count, n_rows = self._look(plan, data.X, bits)
        rows_map = self._map(plan, moments, count)
        bounds = Bounds(plan.norm, plan.width, n_rows)
        # The theorems hold for any margin: it may follow what was released.
        method = replace(plan.planned.method, loss=self._with_margin(plan, count))
        if self.method != "gradient" and sparse.issparse(data.X):
            # After payment nothing may be refused: a centre too far is moved instead.
            rows_map = rows_map.with_magnitude(method.largest_magnitude(bounds))
        rows = rows_map.rows(data.X)
        ridge = self._column_ridge(plan, moments, rows_map, count)
        targets = self._targets(data.y, plan)
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
        method = plan.planned.method
        if self.method != "gradient":
            return method.noise.std(plan.loss.lipschitz(plan.norm), plan.size)
        used = 1 if self.batches == "disjoint" else self.steps
        share = method.sampling_rate if self.batches == "poisson" else 1.0
        return method.noise.std(method.clip, plan.size) / (share * math.sqrt(used))

    def _noise_level(self, plan: Plan, count: float) -> float:
        """Return the norm of the noise, in terms of the largest summed gradient."""
        return self._noise_std(plan) * math.sqrt(plan.size) / max(count, 1.0)

    def _map(self, plan: Plan, moments: Moments | None, count: float) -> RowMap:
        normalize = self.row_norm == "normalize"
        if moments is None:
            intercept = float(self.intercept_scaling) if self.fit_intercept else None
            return plain_map(plan.n_features, plan.unit, intercept, normalize)
        level = self._noise_level(plan, count)
        return moments_map(
            moments,
            plan.unit,
            self.fit_intercept,
            float(self.intercept_scaling),
            normalize,
            clipping_reach(level),
            0.0 if normalize else scaling_power(level),
        )

    def _with_margin(self, plan: Plan, count: float) -> Loss:
        """Return the loss of the fit; only some have a margin."""
        return plan.loss

    def _hardest_loss(self, plan: Plan) -> Loss:
        """Return the loss with the largest margin that a fit might have."""
        return plan.loss

    def _column_ridge(
        self,
        plan: Plan,
        moments: Moments | None,
        rows_map: RowMap,
        count: float,
    ) -> np.ndarray:
        """Return the regularisation of each column."""
        if moments is None or self.C is not None or self.method == "output":
            return np.full(plan.width, plan.ridge)
        return column_ridge(
            plan.ridge,
            plan.loss.bend,
            self._noise_std(plan),
            count,
            column_variances(moments, rows_map, plan.unit),
            plan.constant,
        )

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
        return assumptions(self, "the parameters were chosen without the data")
