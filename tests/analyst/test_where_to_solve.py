"""device= reaches those who recover: the same graph from torch as from the CPU, and a refusal where there is none."""

import importlib.util

import numpy as np
import pytest

import hazeglass as hg
from hazeglass.errors import DeviceWarning, HazeglassError, InputError

HAS_TORCH = importlib.util.find_spec("torch") is not None
needs_torch = pytest.mark.skipif(not HAS_TORCH, reason="torch is not installed")


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    return np.cumsum(rng.standard_normal((400, 6)), axis=1) + 0.3 * rng.standard_normal((400, 6))


def has_gpu():
    if not HAS_TORCH:
        return False
    import torch

    return torch.cuda.is_available()


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
@pytest.mark.parametrize(
    "work",
    [
        lambda rows: hg.CorrectedGraphicalLasso(0.1, device="cuda").fit(rows),
        lambda rows: hg.graphical_lasso_path(np.cov(rows.T), [0.1], device="cuda"),
    ],
)
def test_a_device_that_is_not_there_is_refused_in_one_sentence(rows, work):
    with pytest.raises(HazeglassError, match=r"device.*'cuda'") as refusal:
        work(rows)
    assert refusal.value.exit_status == 2
    assert "\n" not in str(refusal.value)


@pytest.mark.skipif(has_gpu(), reason="there is a GPU here")
def test_recover_says_so_and_uses_the_cpu(rows):
    with pytest.warns(DeviceWarning, match=r"'cuda'.*\. The CPU is used instead") as said:
        there = hg.recover(rows, device="cuda", alpha=0.05)
    assert len(said) == 1
    assert "\n" not in str(said[0].message)
    assert there == hg.recover(rows, alpha=0.05)


@needs_torch
@pytest.mark.parametrize("choice", [{"alpha": 0.05}, {"select": "ebic"}, {"select": "stars"}, {"select": "cv"}])
def test_torch_recovers_the_same_graph(rows, choice):
    here, there = hg.recover(rows, **choice), hg.recover(rows, device="cpu:0", **choice)
    assert there.fit["solver"] == "prox on cpu"
    assert there.pairs == here.pairs
    np.testing.assert_allclose(there.precision, here.precision, atol=0.02 * np.abs(here.precision).max())
    np.testing.assert_allclose(
        there.edges["partial_correlation"].to_numpy(), here.edges["partial_correlation"].to_numpy(), atol=0.01
    )


@needs_torch
def test_the_estimators_take_it_too(rows):
    here, there = (
        hg.CorrectedGraphicalLasso(0.1, noise_cov=0.09, device=d, tol=1e-8).fit(rows) for d in ("cpu", "cpu:0")
    )
    np.testing.assert_allclose(there.precision_, here.precision_, atol=1e-2)


@needs_torch
def test_curved_dependence_stays_on_the_cpu(rows):
    with pytest.raises(InputError, match="curved dependence is solved on the CPU"):
        hg.recover(rows, dependence="curved", device="cpu:0")
