"""The tokens that statistics need, on pools whose truth is known."""

from types import SimpleNamespace

import numpy as np
import pytest

from loadjudge.gates import simulate
from loadjudge.gates.calibration_pool import Pool, Reply, enough, orders, run_of
from loadjudge.gates.gaps import excess_gap, plain_gap, timed
from loadjudge.gates.power import FIGURES, Need, columns, needs, statistics, summed
from loadjudge.gates.simulate import Attack, Target
from loadjudge.gates.terms import joined

TARGET = Target(temperature=0.8, top_p=0.95)


def pool_of(make: SimpleNamespace, name: str, seed: int, attack: Attack | None = None) -> Pool:
    """Forty sessions of fifty replies, some 45,000 tokens."""
    rng = np.random.default_rng([seed, 1])
    scored = simulate.replies(rng, "candidate", target=TARGET, sessions=40, turns=50, attack=attack)
    sizes = [len(r.terms.logp) for r in scored]
    return Pool(
        name=name,
        replies=tuple(
            Reply("solo", r.session, r.turn // 10, make.turn(n, index=r.turn % 10))
            for r, n in zip(scored, sizes, strict=True)
        ),
        terms=joined([r.terms for r in scored]),
        starts=np.concatenate([[0], np.cumsum(sizes)]),
        texts=(),
        greedy=(),
        peak_mib=100.0,
    )


@pytest.fixture(scope="module")
def stock(make: SimpleNamespace) -> Pool:
    return pool_of(make, "stock", 0)


def test_sums_of_a_pool_are_those_of_the_checks(make: SimpleNamespace, stock: Pool) -> None:
    candidate = pool_of(make, "hot", 1, simulate.tempered(1.2))
    at = np.sort(orders(np.random.default_rng(2), stock, candidate)[:300])
    replies = timed(run_of(stock, candidate, at))
    s, c = columns(stock, 0), columns(candidate, 0)
    found = statistics()
    for name, what in FIGURES.items():
        plain, excess = plain_gap(replies, what), excess_gap(replies, what)
        assert plain is not None
        assert excess is not None
        for kind, gap in (("plain", plain), ("excess", excess)):
            estimate = found[f"{name}, {kind}"](s, c, at)
            assert not isinstance(estimate, bool)
            assert estimate.value == pytest.approx(gap.gap)
            assert estimate.se == pytest.approx(gap.se)
        zero = found[f"{name}, zero"](s, c, at)
        assert not isinstance(zero, bool)
        assert zero.value == pytest.approx(excess.candidate)
        assert zero.interval(0.95) == pytest.approx((excess.candidate_low, excess.candidate_high))


def test_a_run_takes_replies_until_both_arms_have_enough(stock: Pool) -> None:
    order = orders(np.random.default_rng(0), stock, stock)
    n = enough(order, stock, stock, 3000)
    taken = stock.tokens[order[:n]]
    assert taken.sum() >= 3000 > taken[:-1].sum()
    assert summed(columns(stock, 0), "end", order[:n], plain=True).n == taken.sum()


def test_excess_sees_a_heated_candidate_with_fewer_tokens(
    make: SimpleNamespace, stock: Pool
) -> None:
    candidate = pool_of(make, "hot", 1, simulate.tempered(1.3))
    found = needs(stock, candidate, 40, 0)
    plain, zero = found["likelihood, plain"], found["likelihood, zero"]
    assert zero.measured
    assert zero.tokens is not None
    assert plain.tokens is not None
    assert plain.tokens > 3 * zero.tokens


def test_what_is_honest_is_not_seen(make: SimpleNamespace, stock: Pool) -> None:
    found = needs(stock, pool_of(make, "honest", 1), 40, 0)
    assert set(found.values()) == {Need(None, False)}


def test_tokens_outside_the_support_are_seen_at_once(make: SimpleNamespace, stock: Pool) -> None:
    found = needs(stock, pool_of(make, "all", 1, simulate.unfiltered), 40, 0)
    support = found["support"]
    assert support.measured
    assert support.tokens is not None
    assert support.tokens < 1000
