"""The grid of GammaNorm is coarse enough for what its sampler resolves."""

import pytest

from skdp import noise
from skdp.mechanisms import GammaNorm


def test_one_feature_is_exact_laplace_noise(monkeypatch):
    # The norm lives on a grid of its own, 2**-45 scales wide. In one dimension a fine
    # output grid would hold n or n + 1 of its points a cell, which showed as a privacy
    # loss of 0.02 for a claim of 0.001.
    def refuse(*arguments):
        raise AssertionError("the inexact sampler was used")

    monkeypatch.setattr(noise, "gamma_norm", refuse)
    assert isinstance(GammaNorm(0.1, 1).release(3.0), float)


@pytest.mark.parametrize("epsilon", [1e-3, 0.01, 0.1, 1.0, 50.0])
@pytest.mark.parametrize("n_features", [1, 2, 10])
def test_a_cell_holds_many_points_of_the_norm(epsilon, n_features):
    mechanism = GammaNorm(epsilon, n_features)
    assert 2**20 <= mechanism._grid(n_features).scale < 2**28
