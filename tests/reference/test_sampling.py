"""q against its definition (statistics.md section 2), and draws against q."""

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from loadjudge.reference.sampling import Choices, Sampling, choices, draw, top_ids, uniforms


def _defined(p: np.ndarray, sampling: Sampling) -> np.ndarray:
    """q by the definition, one row, densely."""
    ranked = sorted(range(len(p)), key=lambda v: (-p[v], v))
    if sampling.temperature == 0:
        return np.eye(len(p))[ranked[0]]
    w = np.zeros(len(p))
    for v in ranked[: sampling.top_k or len(p)]:
        w[v] = np.exp(np.log(p[v]) / sampling.temperature) if p[v] > 0 else 0.0
    w /= w.sum()
    reached, q = 0.0, np.zeros(len(p))
    for v in ranked:
        if reached >= sampling.top_p:
            break
        q[v] = w[v]
        reached += w[v]
    return q / q.sum()


@pytest.mark.parametrize("temperature", [0.0, 0.3, 0.7, 1.0, 1.6])
@pytest.mark.parametrize("top_k", [0, 1, 5, 20, 500])
@pytest.mark.parametrize("top_p", [0.01, 0.5, 0.95, 1.0])
def test_q_is_as_defined(temperature: float, top_k: int, top_p: float) -> None:
    p = np.random.default_rng(1).dirichlet(np.full(60, 0.1), 20).astype(np.float32)
    p[:, :3] = 0
    p /= p.sum(axis=1, keepdims=True)
    sampling = Sampling(temperature, top_k, top_p)
    got = choices(p, sampling)
    for row in range(len(p)):
        dense = np.zeros(60)
        dense[got.ids[row]] = got.q[row]
        np.testing.assert_allclose(dense, _defined(p[row], sampling), atol=1e-6)


def test_equal_probabilities_rank_by_id() -> None:
    p = np.array([[0.1, 0.2, 0.1, 0.2, 0.2, 0.1, 0.1], [0.7, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05]])
    assert top_ids(p.astype(np.float32), 4).tolist() == [[1, 3, 4, 0], [0, 1, 2, 3]]


def test_draws_follow_q() -> None:
    q = np.array([0.5, 0.0, 0.3, 0.15, 0.05, 0.0])
    n = 20_000
    chosen = Choices(np.tile(np.arange(6), (n, 1)), np.tile(q, (n, 1)))
    u = uniforms(np.arange(n, dtype=np.uint64), np.zeros(n, np.int64), 0)
    seen = np.bincount(draw(chosen, u), minlength=6)
    assert seen[1] == seen[5] == 0
    assert chisquare(seen[q > 0], n * q[q > 0]).pvalue > 1e-3


def test_the_largest_uniform_draws_a_token_with_weight() -> None:
    chosen = Choices(np.array([[7, 8, 9]]), np.array([[0.1, 0.2, 0.0]]))
    assert draw(chosen, np.array([1.0])).tolist() == [8]


@pytest.mark.parametrize("by", ["seed", "position", "stream"])
def test_uniforms_are_uniform_and_uncorrelated(by: str) -> None:
    n = 20_000
    counted = np.arange(n)
    if by == "stream":
        u = np.array([uniforms(np.zeros(1, np.uint64), counted[:1], s)[0] for s in range(2000)])
    elif by == "seed":
        u = uniforms(counted.astype(np.uint64), np.full(n, 3), 1)
    else:
        u = uniforms(np.full(n, 5, np.uint64), counted, 1)
    assert kstest(u, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(u[1:], u[:-1])[0, 1]) < 4 / np.sqrt(len(u))
