"""Terms against a plain loop, and the means that they have under losslessness."""

import math
from dataclasses import fields

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loadjudge.gates.lookup import NOTHING
from loadjudge.gates.terms import is_exact, joined, terms
from loadjudge.record.values import Terms
from loadjudge.reference.sampling import Sampling as EngineSampling
from loadjudge.reference.sampling import choices
from loadjudge.wire.request import Sampling

V = 12
END = (3, 7)

samplings = st.builds(
    Sampling,
    temperature=st.sampled_from((0.0, 0.3, 0.7, 1.0, 1.6)),
    top_p=st.sampled_from((0.05, 0.5, 0.83, 0.95, 1.0)),
    top_k=st.sampled_from((None, -1, 1, 2, 5, 11, 50)),
)
# Few different weights, so that ties are common; none at all is possible, too.
weights = st.lists(st.sampled_from((0.0, 1.0, 2.0, 5.0, 11.0, 40.7)), min_size=V, max_size=V)
distributions = st.lists(weights.filter(any), min_size=1, max_size=3)


def logs(rows: list[list[float]]) -> np.ndarray:
    p = np.array(rows) / np.sum(rows, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        return np.maximum(np.log(p), -9999.0)


def naive_q(logp: np.ndarray, sampling: Sampling) -> dict[int, float]:
    """The support of q and its values, one step after the other."""
    ranked = sorted(range(len(logp)), key=lambda v: (-logp[v], v))
    if sampling.temperature == 0:
        return {ranked[0]: 1.0}
    if sampling.top_k and sampling.top_k > 0:
        ranked = ranked[: sampling.top_k]
    weight = {v: math.exp((logp[v] - logp[ranked[0]]) / sampling.temperature) for v in ranked}
    total = sum(weight.values())
    q: dict[int, float] = {}
    reached = 0.0
    for v in ranked:
        if q and reached >= sampling.top_p - 1e-9:
            break
        q[v] = weight[v] / total
        reached += q[v]
    kept = sum(q.values())
    return {v: x / kept for v, x in q.items()}


def naive(logp: np.ndarray, y: int, sampling: Sampling, copy: int) -> dict[str, float]:
    q = naive_q(logp, sampling)
    first = min(range(V), key=lambda v: (-logp[v], v))
    expected = sum(x * logp[v] for v, x in q.items() if x)
    return {
        "logp": logp[y],
        "expected": expected,
        "variance": sum(x * (logp[v] - expected) ** 2 for v, x in q.items() if x),
        "is_first": float(y == first),
        "q_first": q.get(first, 0.0),
        "is_end": float(y in END),
        "q_end": sum(q.get(v, 0.0) for v in END),
        "q": q.get(y, 0.0),
        "above": sum(x for v, x in q.items() if (-logp[v], v) < (-logp[y], y)),
        "is_copy": float(y == copy),
        "q_copy": q.get(copy, 0.0),
    }


def on_a_step(logp: np.ndarray, sampling: Sampling) -> bool:
    """Whether the mass of some first choices is ``top_p`` to the last digit: rounding decides."""
    q = naive_q(logp, Sampling(sampling.temperature, 1.0, sampling.top_k))
    sums = np.cumsum(list(q.values()))
    return bool((np.abs(sums - sampling.top_p) < 1e-9).any())


def row(t: Terms, i: int) -> dict[str, float]:
    return {f.name: getattr(t, f.name)[i] for f in fields(Terms)}


@given(distributions, samplings)
@settings(max_examples=80, deadline=None)
def test_terms_are_those_of_a_plain_loop(rows: list[list[float]], sampling: Sampling) -> None:
    logp = logs(rows)
    for y in range(V):
        copies = np.array([(5, NOTHING, y)[i] for i in range(len(rows))])
        got = terms(logp, None, [y] * len(rows), sampling, END, copies=copies)
        for i in range(len(rows)):
            if sampling.top_p == 1 or not on_a_step(logp[i], sampling):
                want = naive(logp[i], y, sampling, int(copies[i]))
                assert row(got, i) == pytest.approx(want, abs=1e-9)


@given(distributions, samplings)
@settings(max_examples=50, deadline=None)
def test_q_is_the_embedded_engines(rows: list[list[float]], sampling: Sampling) -> None:
    p = (np.array(rows) / np.sum(rows, axis=1, keepdims=True)).astype(np.float32)
    with np.errstate(divide="ignore"):
        logp = np.maximum(np.log(p.astype(np.float64)), -9999.0)
    its = EngineSampling(sampling.temperature, max(0, sampling.top_k or 0), sampling.top_p)
    chosen = choices(p, its)
    for y in range(V):
        got = terms(logp, None, [y] * len(p), sampling, END)
        for i in range(len(p)):
            if sampling.top_p == 1 or not on_a_step(logp[i], sampling):
                want = chosen.rows(np.array([i])).of(np.array([y]))[0]
                assert got.q[i] == pytest.approx(want, abs=1e-9)


@given(distributions, samplings, st.integers(1, V), st.randoms())
@settings(max_examples=80, deadline=None)
def test_means_are_nought_under_q_whatever_k(
    rows: list[list[float]], sampling: Sampling, k: int, random: object
) -> None:
    """Σ_y q(y) d(y) and so on; with too small a K, too, at temperature 1 and without top k."""
    logp = logs(rows)
    ids = np.argsort(-logp, axis=1, kind="stable")[:, :k]
    part = np.take_along_axis(logp, ids, axis=1)
    exact = is_exact(part, False, sampling)
    plain = sampling.temperature == 1 and not max(0, sampling.top_k or 0) and sampling.top_p == 1
    if not (exact or plain):
        return
    for i in range(len(rows)):
        if sampling.top_p < 1 and on_a_step(logp[i], sampling):
            continue
        q = naive_q(logp[i], sampling)
        sums = dict.fromkeys(("d", "a", "e", "u", "mass"), 0.0)
        for y, x in q.items():
            one = row(
                terms(part[i : i + 1], ids[i : i + 1], [y], sampling, END, logp[i, y : y + 1]), 0
            )
            sums["mass"] += x
            sums["d"] += x * (one["logp"] - one["expected"])
            sums["a"] += x * (one["is_first"] - one["q_first"])
            sums["e"] += x * (one["is_end"] - one["q_end"])
            sums["u"] += x * (one["above"] + one["q"] / 2)  # the mean rank position
            assert x < 1e-6 or one["q"] > 0
        assert sums == pytest.approx({"d": 0, "a": 0, "e": 0, "u": 0.5, "mass": 1}, abs=1e-9)


@given(distributions, samplings, st.integers(1, V))
@settings(max_examples=60, deadline=None)
def test_k_log_probabilities_give_the_same_where_they_are_said_to_be_exact(
    rows: list[list[float]], sampling: Sampling, k: int
) -> None:
    logp = logs(rows)
    order = np.argsort(-logp, axis=1, kind="stable")[:, :k]
    ids = np.ascontiguousarray(order[:, ::-1])  # in any order
    part = np.take_along_axis(logp, ids, axis=1)
    if not is_exact(part, False, sampling):
        return
    for y in range(V):
        reply = [y] * len(rows)
        whole = terms(logp, None, reply, sampling, END)
        got = terms(part, ids, reply, sampling, END, logp[:, y])
        for i in range(len(rows)):
            if sampling.top_p == 1 or not on_a_step(logp[i], sampling):
                assert row(got, i) == pytest.approx(row(whole, i), abs=1e-9)


@pytest.mark.parametrize(
    ("sampling", "exact"),
    [
        (Sampling(1.0), False),
        (Sampling(0.7, 0.9), False),
        (Sampling(0.7, 0.9, top_k=4), True),
        (Sampling(0.7, 0.9, top_k=5), False),
        (Sampling(0.0), True),
        (Sampling(1.0, 0.5), True),  # the four hold 0.84
        (Sampling(1.0, 0.9), False),
    ],
)
def test_exact_is_said_where_four_log_probabilities_are_enough(
    sampling: Sampling, exact: bool
) -> None:
    part = logs([[5, 5, 5, 2, 1, 1, 1]])[:, :4]
    assert is_exact(part, False, sampling) is exact
    assert is_exact(part, True, sampling)


def test_tokens_beyond_the_k_are_one_outcome() -> None:
    logp = logs([[8, 4, 2, 1, 1]])
    part, ids = logp[:, :2], np.array([[0, 1]])
    got = terms(part, ids, [4], Sampling(1.0), (4,), logp[:, 4], np.array([4]))
    assert row(got, 0) == pytest.approx(
        {
            "logp": logp[0, 1],  # of a token beyond the K no more is seen than the K-th's
            "expected": 0.5 * logp[0, 0] + 0.5 * logp[0, 1],
            "variance": (logp[0, 0] - logp[0, 1]) ** 2 / 4,
            "is_first": 0.0,
            "q_first": 0.5,
            "is_end": 0.0,  # nor that it is the end
            "q_end": 0.0,
            "q": 0.25,
            "above": 0.75,
            "is_copy": 0.0,  # nor that it is what a lookup proposes
            "q_copy": 0.0,
        }
    )


def test_a_token_outside_the_support_keeps_its_log_probability() -> None:
    logp = logs([[8, 4, 2, 1, 1]])
    got = terms(logp[:, :2], np.array([[0, 1]]), [4], Sampling(1.0, 1.0, 2), (4,), logp[:, 4])
    assert (got.logp[0], got.q[0], got.is_end[0]) == (logp[0, 4], 0.0, 1.0)
    assert got.above[0] == pytest.approx(1.0)


def test_a_reply_token_without_a_log_probability_is_an_error() -> None:
    with pytest.raises(ValueError, match="token 4"):
        terms(logs([[8, 4]]), np.array([[0, 1]]), [4], Sampling(), ())


def test_chunks_of_a_large_vocabulary_join() -> None:
    rng = np.random.default_rng(3)
    raw = rng.normal(0, 3, (24, 50_000)).astype(np.float32)  # two chunks
    logp = raw - np.log(np.exp(raw).sum(axis=1, keepdims=True))
    y = rng.integers(0, 50_000, 24)
    for sampling in (Sampling(1.0, 0.95), Sampling(0.7, 0.9, 20), Sampling(1.0)):
        whole = terms(logp, None, y, sampling, END)
        apart = joined(
            [terms(logp[i : i + 1], None, y[i : i + 1], sampling, END) for i in range(24)]
        )
        for f in fields(Terms):
            a, b = getattr(whole, f.name), getattr(apart, f.name)
            assert a == pytest.approx(b, abs=1e-12)
        some = naive_q(logp[7].astype(np.float64), sampling)
        assert whole.q[7] == pytest.approx(some.get(int(y[7]), 0.0), abs=1e-12)


def test_no_tokens_no_terms() -> None:
    got = terms(np.empty((0, V)), None, [], Sampling(), END)
    assert all(getattr(got, f.name).shape == (0,) for f in fields(Terms))
