"""Planning the noise, and quantiles of Laplace plus normal errors."""

import math
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from skdp.calibration import gaussian_shift
from skdp.random_bits import RandomBits
from skdp.stats._release import half_width, plan_release


def test_auto_takes_the_smaller_noise():
    few = plan_release(1.0, 1.0, 1.0, 1e-6, "auto", "replace")
    many = plan_release(100.0, 10.0, 1.0, 1e-6, "auto", "replace")
    assert (few.kind, many.kind) == ("laplace", "gaussian")
    for kind in ("laplace", "gaussian"):
        one = plan_release(100.0, 10.0, 1.0, 1e-6, kind, "replace")
        assert one.kind == kind and one.std >= many.std


def test_pure_is_laplace():
    assert plan_release(100.0, 10.0, 1.0, 0.0, "auto", "replace").kind == "laplace"
    with pytest.raises(ValueError, match="needs delta > 0"):
        plan_release(1.0, 1.0, 1.0, 0.0, "gaussian", "replace")


@pytest.mark.parametrize("kind, price", [("laplace", 2.0), ("gaussian", 0.5)])
def test_the_noise_is_that_of_the_event(kind, price):
    release = plan_release(3.0, 2.0, price, 1e-5, kind, "add_remove")
    if kind == "laplace":
        assert release.event.epsilon(0) == pytest.approx(price)
        assert release.scale == 3.0 / price
    else:
        assert release.event.epsilon(1e-5) == pytest.approx(price, rel=1e-6)
        assert release.scale == pytest.approx(2.0 / gaussian_shift(price, 1e-5))
    drawn = release.add(np.zeros(40_000), RandomBits(0))
    # The standard error of a standard deviation is 1.1 % (Laplace): 6 of them.
    assert np.std(drawn) == pytest.approx(release.std, rel=0.07)


@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
@pytest.mark.parametrize("ratio", [1e-6, 1e-3, 0.1, 1.0, 10.0, 1e4])
def test_half_width_by_quadrature(level, ratio):
    std, scale = ratio, 1 / math.sqrt(2)
    t = half_width("laplace", 1.0, std, level)

    def density(z):
        inside = stats.laplace.cdf(t, z, scale) - stats.laplace.cdf(-t, z, scale)
        return inside * stats.norm.pdf(z, 0, std)

    edges = sorted(
        {x for x in (-t, 0.0, t) if abs(x) < 12 * std} | {-12 * std, 12 * std}
    )
    found = sum(integrate.quad(density, a, b, limit=500)[0] for a, b in pairwise(edges))
    assert found == pytest.approx(level, abs=2e-3) and found >= level - 1e-6


def test_half_width_without_a_part():
    assert half_width("laplace", 0.0, 0.0, 0.9) == 0.0
    assert half_width("gaussian", 3.0, 4.0, 0.95) == pytest.approx(5 * 1.959964, 1e-6)
    assert half_width("laplace", 0.0, 2.0, 0.95) == pytest.approx(2 * 1.959964, 1e-6)
    assert half_width("laplace", math.sqrt(2), 0.0, 0.9) == pytest.approx(math.log(10))
