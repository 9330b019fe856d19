"""Plans: what they cost, whether their noise is what they pay for, what they refuse."""

import math

import pytest

from skdp import events
from skdp.calibration import gaussian_shift
from skdp.erm import Huber, Logistic, SmoothedHinge, Softmax, Squared
from skdp.erm.plans import (
    Budget,
    curvature_limits,
    plan_gradient,
    plan_objective,
    plan_output,
    unit_curvature,
)

LOSSES = {
    "logistic": Logistic(),
    "hinge": SmoothedHinge(0.5),
    "huber": Huber(0.7),
    "softmax": Softmax(4),
}
RELATIONS = ("replace", "add_remove")
NORM = 1.3
EVERY = pytest.mark.parametrize("name", LOSSES)
BOTH = pytest.mark.parametrize("neighboring", RELATIONS)
LOOKS = pytest.mark.parametrize("look", [0.0, 0.1])
DELTAS = pytest.mark.parametrize("delta", [0.0, 1e-6])


def smallest_ridge(loss, budget):
    return unit_curvature(loss, NORM) / curvature_limits(loss, budget)[0]


def gradient_plan(loss, budget, batches="full", clip=None, **changes):
    options = {"steps": 20, "sampling_rate": 0.1, "step_size": None, **changes}
    return plan_gradient(loss, NORM, budget, batches=batches, clip=clip, **options)


def assert_spends(planned, budget, least):
    epsilon = planned.event.epsilon(budget.delta)
    assert least * budget.epsilon <= epsilon <= budget.epsilon * (1 + 1e-9)
    assert planned.event.neighboring == budget.neighboring
    assert (planned.look is None) == (budget.look == 0)


# --- What plans cost


@DELTAS
@LOOKS
@BOTH
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
@pytest.mark.parametrize("problems", [1, 3])
def test_output_plans_spend_the_budget(problems, epsilon, neighboring, look, delta):
    budget = Budget(epsilon, delta, neighboring, look)
    planned = plan_output(Logistic(), budget, 1.0, problems=problems)
    assert_spends(planned, budget, 0.97)
    assert planned.method.problems == problems


@LOOKS
@BOTH
@EVERY
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_objective_plans_spend_the_budget(name, epsilon, neighboring, look):
    budget = Budget(epsilon, 1e-6, neighboring, look)
    loss = LOSSES[name]
    planned = plan_objective(loss, NORM, budget, smallest_ridge(loss, budget))
    assert_spends(planned, budget, 0.9 if name == "softmax" else 0.97)


@BOTH
@pytest.mark.parametrize("name", ["logistic", "hinge"])
def test_plans_of_several_objectives_spend_the_budget(name, neighboring):
    budget, loss = Budget(1.0, 1e-6, neighboring, 0.1), LOSSES[name]
    ridge = 3 * smallest_ridge(loss, budget)
    planned = plan_objective(loss, NORM, budget, ridge, problems=3)
    assert_spends(planned, budget, 0.9)
    assert planned.method.problems == 3
    one, joint = planned.event.events
    assert planned.event.counts == (3, 1)
    noise = planned.method.noise
    assert one.shift == pytest.approx(noise.rate, rel=1e-9)
    assert one.curvature == pytest.approx(unit_curvature(loss, NORM) / ridge)
    assert one.gaussian_shift == 0 and one.loss == loss.theorem
    rate = math.hypot(planned.look.rate, planned.method.sliver.rate) * budget.rows
    assert joint.noise_multiplier == pytest.approx(1 / rate, rel=1e-9)


@BOTH
@pytest.mark.parametrize(
    ("delta", "look", "batches"),
    [
        (0.0, 0.0, "full"),
        (0.0, 0.1, "full"),
        (0.0, 0.1, "disjoint"),
        (1e-6, 0.0, "full"),
        (1e-6, 0.0, "disjoint"),
        (1e-6, 0.1, "disjoint"),
        (1e-6, 0.1, "full"),
    ],
)
def test_gradient_plans_spend_the_budget(delta, look, batches, neighboring):
    budget = Budget(1.0, delta, neighboring, look)
    planned = gradient_plan(Softmax(4), budget, batches)
    assert_spends(planned, budget, 0.97)


@pytest.mark.parametrize(
    ("neighboring", "look"), [("replace", 0.0), ("add_remove", 0.1)]
)
def test_poisson_plans_spend_the_budget(neighboring, look):
    budget = Budget(1.0, 1e-6, neighboring, look)
    planned = gradient_plan(Logistic(), budget, "poisson")
    # Seven halvings of a factor of 15 leave 2 % of the rate open.
    assert_spends(planned, budget, 0.95)


@LOOKS
@BOTH
def test_pure_objective_plans_spend_the_budget(neighboring, look):
    budget = Budget(1.0, 0.0, neighboring, look)
    ridge = 2 * smallest_ridge(Logistic(), budget)
    assert_spends(plan_objective(Logistic(), NORM, budget, ridge), budget, 0.99)


# --- The noise is that of the event


@LOOKS
@BOTH
@EVERY
def test_the_linear_term_is_that_of_the_event(name, neighboring, look):
    """The event, made once more from the noise that the plan adds."""
    budget, loss = Budget(1.0, 1e-6, neighboring, look), LOSSES[name]
    ridge = smallest_ridge(loss, budget)
    planned = plan_objective(loss, NORM, budget, ridge)
    plan = planned.method
    std = plan.noise.std(loss.lipschitz(NORM), 10)
    # Softmax counts in norms of rows, the others in norms of gradients.
    per_row = NORM if name == "softmax" else loss.lipschitz(NORM)
    gaussian = math.hypot(plan.sliver.rate, planned.look.rate if look else 0.0)
    event = events.ObjectivePerturbation(
        per_row / std,
        unit_curvature(loss, NORM) / ridge,
        {"hinge": "one_sided", "huber": "two_sided"}.get(name, name),
        4 if name == "softmax" else 2,
        gaussian,
        neighboring,
    )
    for field in ("shift", "curvature", "gaussian_shift"):
        assert getattr(planned.event, field) == pytest.approx(
            getattr(event, field), rel=1e-9
        )
    assert (planned.event.loss, planned.event.classes) == (event.loss, event.classes)
    assert plan.event == planned.event and plan.ridge == ridge
    assert plan.noise.kind == plan.sliver.kind == "gaussian"
    square = per_row**2 / std**2 * (2 if name == "softmax" else 1)
    share = gaussian**2 / (gaussian**2 + square)
    assert share == pytest.approx(look + 1e-3, rel=1e-6)


@LOOKS
@BOTH
def test_a_pure_linear_term_is_that_of_the_event(neighboring, look):
    budget = Budget(0.8, 0.0, neighboring, look)
    planned = plan_objective(Logistic(), NORM, budget, 10.0)
    rows = 2 if neighboring == "replace" else 1
    spent = (1 - look - 1e-3) * 0.8
    pure, sliver, *rest = planned.event.events
    assert pure == events.Pure(spent, neighboring)
    assert planned.method.noise.kind == "laplace"
    rate = planned.method.noise.rate * rows
    assert spent * (1 - 1e-8) <= rate < spent
    assert sliver.noise_multiplier == pytest.approx(1 / (8e-4), rel=1e-9)
    assert planned.method.sliver.rate * rows == pytest.approx(8e-4, rel=1e-9)
    if look:
        assert rest[0].noise_multiplier == pytest.approx(1 / 0.08, rel=1e-9)
        assert planned.look.rate * rows == pytest.approx(0.08, rel=1e-9)
    else:
        assert rest == []


@DELTAS
@BOTH
def test_output_noise_and_look_share_the_budget(neighboring, delta):
    rows = 2 if neighboring == "replace" else 1
    planned = plan_output(Logistic(), Budget(1.0, delta, neighboring, 0.2), 1.0)
    look, noise = planned.look.rate * rows, planned.method.noise.rate * rows
    if delta:
        whole = gaussian_shift(1.0, delta)
        assert math.hypot(look, noise) == pytest.approx(whole, rel=1e-12)
        assert look**2 == pytest.approx(0.2 * whole**2, rel=1e-12)
        kinds = events.Gaussian
    else:
        assert (look, noise) == pytest.approx((0.2, 0.8), rel=1e-12)
        kinds = events.Laplace
    expected = (kinds(1 / look, neighboring), kinds(1 / noise, neighboring))
    for found, event in zip(planned.event.events, expected, strict=True):
        assert type(found) is type(event)
        assert found.noise_multiplier == pytest.approx(event.noise_multiplier)


@BOTH
def test_gradient_noise_is_shared_by_the_steps_that_see_a_row(neighboring):
    rows = 2 if neighboring == "replace" else 1
    whole = gaussian_shift(1.0, 1e-6) / rows
    budget = Budget(1.0, 1e-6, neighboring)
    full = gradient_plan(Logistic(), budget, "full").method
    assert full.noise.rate == pytest.approx(whole / math.sqrt(20), rel=1e-12)
    disjoint = gradient_plan(Logistic(), budget, "disjoint").method
    assert disjoint.noise.rate == pytest.approx(whole, rel=1e-12)
    pure = gradient_plan(Logistic(), Budget(1.0, 0.0, neighboring), "full").method
    assert pure.noise.rate == pytest.approx(1 / (20 * rows), rel=1e-12)


def test_the_clip_is_never_above_the_bound_of_the_gradient():
    budget = Budget(1.0, 1e-6, "replace")
    assert gradient_plan(Logistic(), budget).method.clip == NORM
    assert gradient_plan(Logistic(), budget, clip=9.0).method.clip == NORM
    assert gradient_plan(Logistic(), budget, clip=0.2).method.clip == 0.2
    bound = math.sqrt(2) * NORM
    assert gradient_plan(Softmax(3), budget).method.clip == pytest.approx(bound)
    bound = math.sqrt(3) * NORM
    several = gradient_plan(Logistic(), budget, problems=3).method
    assert several.clip == pytest.approx(bound)


# --- Limits of the curvature


@BOTH
@EVERY
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 8.0])
def test_a_plan_exists_up_to_the_largest_curvature(name, epsilon, neighboring):
    budget, loss = Budget(epsilon, 1e-6, neighboring), LOSSES[name]
    default, largest = curvature_limits(loss, budget)
    assert 0 < default <= largest
    planned = plan_objective(loss, NORM, budget, unit_curvature(loss, NORM) / largest)
    assert planned.event.epsilon(1e-6) <= epsilon * (1 + 1e-9)


def test_the_numerator_of_the_curvature():
    assert unit_curvature(Logistic(), 3.0) == 9.0
    assert unit_curvature(Softmax(3), 3.0) == 9.0
    assert unit_curvature(SmoothedHinge(0.1), 3.0) == pytest.approx(45.0)
    assert unit_curvature(Huber(0.1), 3.0) == 9.0


def worst_pure_loss(planned, ridge):
    """Return the largest log ratio, by Theorem A's formula, over all s in [0, 1]."""
    rate, q = planned.method.noise.rate, NORM**2 / ridge
    grid = [i / 10_000 for i in range(10_001)]
    removed = max(s * rate + math.log1p(s * (1 - s) * q) for s in grid)
    added = rate if planned.event.neighboring == "replace" else 0.0
    return removed + added


@BOTH
@LOOKS
@pytest.mark.parametrize("which", [0, 1])
def test_the_pure_theorem_holds_at_the_limits(which, look, neighboring):
    budget = Budget(1.0, 0.0, neighboring, look)
    ridge = NORM**2 / curvature_limits(Logistic(), budget)[which]
    planned = plan_objective(Logistic(), NORM, budget, ridge)
    assert worst_pure_loss(planned, ridge) <= 1 - look - 1e-3


def test_a_pure_plan_refuses_a_small_ridge():
    with pytest.raises(ValueError, match="a regularisation of at least"):
        plan_objective(Logistic(), NORM, Budget(1.0, 0.0, "replace"), 0.01)


def test_too_much_curvature_is_refused():
    budget = Budget(1.0, 1e-6, "replace")
    with pytest.raises(ValueError, match="'curvature' parameter must be smaller"):
        plan_objective(SmoothedHinge(0.5), NORM, budget, 0.01)
    with pytest.raises(ValueError, match="cannot share epsilon=1 over 3 classes"):
        plan_objective(SmoothedHinge(0.5), NORM, budget, 0.01, problems=3)


# --- The literature's calibrations


@BOTH
@EVERY
def test_kst_is_valid_and_noisier_than_exact(name, neighboring):
    budget, loss = Budget(1.0, 1e-6, neighboring), LOSSES[name]
    ridge = 2 * loss.smoothness(NORM) * budget.rows / budget.epsilon
    ridge = max(ridge, smallest_ridge(loss, budget))
    planned = plan_objective(loss, NORM, budget, ridge, calibration="kst")
    exact = plan_objective(loss, NORM, budget, ridge)
    assert planned.event.epsilon(1e-6) <= 1.0
    assert planned.method.noise.rate < exact.method.noise.rate
    # sigma = L sqrt(8 log(2/delta) + 4 epsilon)/epsilon, for each of the rows.
    sigma = budget.rows * math.sqrt(8 * math.log(2e6) + 4)
    assert planned.method.noise.rate == pytest.approx(1 / sigma, rel=1e-9)


def test_kst_is_refused_where_its_price_is_above_the_budget():
    budget = Budget(1.0, 1e-6, "replace")
    with pytest.raises(
        ValueError, match=r"cannot be confirmed for epsilon=1, .*0\.01:"
    ):
        plan_objective(Logistic(), NORM, budget, 0.01, calibration="kst")


@BOTH
def test_cms_is_valid_and_noisier_than_exact(neighboring):
    budget, ridge = Budget(1.0, 0.0, neighboring), 8 * NORM**2
    planned = plan_objective(Logistic(), NORM, budget, ridge, calibration="cms")
    exact = plan_objective(Logistic(), NORM, budget, ridge)
    assert planned.event.epsilon(0.0) <= 1 + 1e-9
    left = 0.999 - 2 * math.log1p(NORM**2 / (4 * ridge))
    assert planned.method.noise.rate * budget.rows == pytest.approx(left, rel=1e-6)
    assert planned.method.noise.rate < exact.method.noise.rate
    assert worst_pure_loss(planned, ridge) <= 0.999
    with pytest.raises(ValueError, match="'cms' does not allow this 'C'"):
        plan_objective(Logistic(), NORM, budget, 0.1, calibration="cms")


@pytest.mark.parametrize(("delta", "calibration"), [(1e-6, "kst"), (0.0, "exact")])
def test_several_problems_are_never_paid_as_one(delta, calibration):
    budget = Budget(1.0, delta, "add_remove")
    with pytest.raises(ValueError, match="one problem"):
        plan_objective(
            Logistic(), NORM, budget, 10.0, problems=5, calibration=calibration
        )


# --- Refusals in words


@pytest.mark.parametrize("name", ["softmax", "hinge", "huber"])
def test_pure_objectives_without_a_theorem_are_refused(name):
    with pytest.raises(ValueError, match="'delta' parameter must be positive"):
        plan_objective(LOSSES[name], NORM, Budget(1.0, 0.0, "replace"), 10.0)


def test_losses_without_a_theorem_are_refused():
    with pytest.raises(ValueError, match="no theorem for the loss Squared"):
        plan_objective(Squared(), NORM, Budget(1.0, 1e-6, "replace"), 10.0)


def test_calibrations_for_another_delta_are_refused():
    with pytest.raises(
        ValueError, match=r"'cms' is pure: it needs delta=0\. Got delta=1e-06"
    ):
        budget = Budget(1.0, 1e-6, "replace")
        plan_objective(Logistic(), NORM, budget, 10.0, calibration="cms")
    with pytest.raises(ValueError, match=r"'kst' needs delta > 0\. Got delta=0"):
        budget = Budget(1.0, 0.0, "replace")
        plan_objective(Logistic(), NORM, budget, 10.0, calibration="kst")


def test_unbounded_gradients_need_a_clip():
    budget = Budget(1.0, 1e-6, "replace")
    with pytest.raises(
        ValueError, match="Squared has no bounded gradient: give 'clip'"
    ):
        gradient_plan(Squared(), budget)
    assert gradient_plan(Squared(), budget, clip=0.5).method.clip == 0.5


def test_pure_poisson_batches_are_refused():
    with pytest.raises(ValueError, match="batches='poisson' needs delta > 0"):
        gradient_plan(Logistic(), Budget(1.0, 0.0, "replace"), "poisson")
