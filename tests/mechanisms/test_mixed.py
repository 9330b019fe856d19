"""The mechanism with less noise, and the rule from lecture notes that is false."""

import math

import numpy as np
import pytest
from scipy import integrate, stats

from skdp import events
from skdp.mechanisms import Gaussian, Laplace, MixedNoise


@pytest.mark.parametrize("delta", [1e-12, 1e-6, 1e-2, 0.5])
@pytest.mark.parametrize("epsilon", [0.01, 0.5, 1.0, 5.0, 100.0])
@pytest.mark.parametrize("ratio", [1.0, 2.0, 5.0, 30.0])
@pytest.mark.parametrize("size", [1e-200, 1.0, 1e200])
def test_takes_the_smaller_noise(epsilon, delta, ratio, size):
    mixed = MixedNoise(epsilon, delta, ratio * size, size)
    laplace = Laplace(epsilon, ratio * size)
    gaussian = Gaussian(epsilon, delta, size)
    # Without squares, which overflow.
    smaller = min(laplace.scale / size * math.sqrt(2), gaussian.sigma / size)
    assert mixed.mechanism in (laplace, gaussian)
    assert mixed.std / size == pytest.approx(smaller, rel=1e-9)
    assert mixed.std == mixed.mechanism.std
    assert mixed.variance == mixed.mechanism.variance
    assert mixed.interval(0.9) == mixed.mechanism.interval(0.9)
    assert mixed.event == mixed.mechanism.event


def test_both_kinds_are_taken():
    assert isinstance(MixedNoise(1.0, 1e-6).mechanism, Laplace)
    assert isinstance(MixedNoise(1.0, 1e-6, 10.0, 1.0).mechanism, Gaussian)
    assert isinstance(MixedNoise(1.0, 0.4).mechanism, Gaussian)  # for one number too


def test_the_choice_keeps_the_claim():
    for delta in (1e-9, 1e-3, 0.3):
        for ratio in (1.0, 3.0, 20.0):
            mixed = MixedNoise(1.0, delta, ratio, 1.0, neighboring="add_remove")
            assert mixed.event.profile(1.0) <= delta
            assert mixed.event.neighboring == "add_remove"


def test_release_is_that_of_the_chosen_mechanism():
    value = np.arange(5.0)
    for mixed in (MixedNoise(1.0, 1e-6), MixedNoise(1.0, 1e-6, 10.0, 1.0)):
        out = mixed.release(value, random_state=3)
        assert np.array_equal(out, mixed.mechanism.release(value, random_state=3))
        assert type(mixed.release(1.0)) is float


def test_the_l2_sensitivity_is_the_l1_sensitivity_unless_given():
    assert MixedNoise(1.0, 1e-6, 3.0).l2_sensitivity == 3.0
    with pytest.raises(ValueError, match="'l2_sensitivity'"):
        MixedNoise(1.0, 1e-6, 1.0, 2.0)


@pytest.mark.parametrize(
    ("epsilon", "true"), [(0.1, 0.0026), (1.0, 0.0396), (2.0, 0.1145)]
)
@pytest.mark.parametrize("sensitivity", [1e-12, 1e-3, 1.0, 1e6])
def test_threshold_rule_of_the_lecture_is_false(epsilon, true, sensitivity):
    # The rule: N(0, 2 (sensitivity/epsilon)^2) is (epsilon, delta)-DP as soon as
    # sensitivity <= sqrt(pi) delta epsilon/2. Its true delta is far larger than the
    # smallest delta of that rule, and is the same for every sensitivity.
    sigma = math.sqrt(2) * sensitivity / epsilon
    delta = events.Gaussian(sigma / sensitivity).profile(epsilon)
    assert delta == pytest.approx(true, abs=5e-5)
    density = stats.norm(scale=sigma).pdf
    crossing = sensitivity / 2 - sigma**2 * epsilon / sensitivity

    def excess(y):
        return density(y) - math.exp(epsilon) * density(y - sensitivity)

    ends = (crossing - 12 * sigma, crossing)
    exact = integrate.quad(excess, *ends, epsabs=0, epsrel=1e-9)[0]
    assert exact == pytest.approx(true, abs=5e-5)
    claimed = 2 * sensitivity / (math.sqrt(math.pi) * epsilon)
    if sensitivity <= 1e-3 and epsilon >= 1:
        assert exact > 30 * claimed


def test_mixed_noise_does_not_follow_that_rule():
    for sensitivity in (1e-9, 1e-3):
        mixed = MixedNoise(1.0, 1e-3, sensitivity)
        assert mixed.event.profile(1.0) <= 1e-3
        assert mixed.mechanism == Laplace(1.0, sensitivity)
