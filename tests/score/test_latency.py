"""Latencies of turns whose arrivals are written out."""

from typing import Any

import numpy as np
import pytest
from scipy import stats

from loadjudge.score.latency import (
    inter_token,
    latencies,
    rank_interval,
    time_per_output_token,
    tokens_by_arrival,
)


def arrived(make: Any, *arrivals: tuple[float, int | None, int], **changes: Any) -> Any:
    tokens = sum(n or 0 for _, n, _ in arrivals)
    return make.turn(**{"tokens": tokens, "arrivals": arrivals, **changes})


def test_k_tokens_after_a_gap_are_k_latencies_of_its_kth_part(make: Any) -> None:
    turn = arrived(make, (1.0, 2, 8), (1.4, 4, 16), (1.5, 1, 4))
    gaps, weights = inter_token(turn)
    assert gaps == pytest.approx([0.1, 0.1])
    assert weights == [4, 1]
    assert sum(g * w for g, w in zip(gaps, weights, strict=True)) == pytest.approx(0.5)


def test_a_read_without_tokens_does_not_shorten_the_next_gap(make: Any) -> None:
    """The gap was counted from the read without tokens."""
    turn = arrived(make, (1.0, 1, 4), (1.4, 0, 4), (1.5, 2, 8))
    assert inter_token(turn) == (pytest.approx([0.25]), [2])


def test_tpot_leaves_out_the_first_reads_tokens(make: Any) -> None:
    turn = arrived(make, (1.0, 3, 9), (1.2, 2, 8), (2.0, 3, 9))
    assert time_per_output_token(turn) == pytest.approx(1.0 / 5)


def test_a_reply_of_one_read_has_no_tpot_and_no_itl(make: Any) -> None:
    turn = arrived(make, (1.0, 7, 30))
    assert time_per_output_token(turn) is None
    assert inter_token(turn) == ([], [])


def test_without_ids_the_trusted_count_is_shared_out_by_characters(make: Any) -> None:
    turn = arrived(make, (1.0, None, 10), (2.0, None, 30), tokens=8, source="tokenizer")
    assert tokens_by_arrival(turn) == [2, 6]


def test_ids_that_were_not_trusted_do_not_place_the_tokens(make: Any) -> None:
    turn = arrived(make, (1.0, 50, 10), (2.0, 50, 30), tokens=8, source="tokenizer")
    assert tokens_by_arrival(turn) == [2, 6]


def test_an_unknown_count_gives_neither_itl_nor_tpot(make: Any) -> None:
    turn = arrived(make, (1.0, None, 10), (2.0, None, 30), tokens=None, source=None)
    assert tokens_by_arrival(turn) is None
    assert latencies([turn]).keys() == {"ttft", "ttfot", "e2el", "queue"}


def test_ttft_is_of_any_channel_and_ttfot_of_content(make: Any) -> None:
    turn = arrived(make, (1.0, 1, 4), (3.0, 9, 36), sent_s=0.5, first_content_s=3.0)
    figures = latencies([turn])
    assert figures["ttft"].mean == pytest.approx(0.5)
    assert figures["ttfot"].mean == pytest.approx(2.5)


def test_a_reply_of_a_tool_call_alone_has_no_ttfot(make: Any) -> None:
    assert "ttfot" not in latencies([make.turn(first_content_s=None)])


def test_usage_and_done_do_not_extend_e2el(make: Any) -> None:
    turn = arrived(make, (1.0, 1, 4), (3.0, 9, 36), sent_s=0.5, done_s=9.0)
    assert latencies([turn])["e2el"].mean == pytest.approx(2.5)


def test_the_queue_is_the_clients_own_wait(make: Any) -> None:
    assert latencies([make.turn(sent_s=2.0, scheduled_s=1.5)])["queue"].mean == 0.5


def test_turns_that_failed_count_nothing(make: Any) -> None:
    assert latencies([make.failed_turn()]) == {}


def test_quantiles_are_the_samples_of_their_rank(make: Any) -> None:
    turns = [make.turn(sent_s=0.0, scheduled_s=-float(i)) for i in range(1, 101)]
    queue = latencies(turns[::-1])["queue"]
    assert queue.n == 100
    assert (queue.p50.value, queue.p90.value, queue.p99.value) == (50, 90, 99)
    assert (queue.p50.low, queue.p50.high) == rank_interval(100, 0.5)


def test_quantiles_of_itl_weigh_each_token(make: Any) -> None:
    # 9 tokens at 0.1 s each, then one after 1 s: the median is a token's, not a read's.
    turn = arrived(make, (0.0, 1, 4), (0.9, 9, 36), (1.9, 1, 4))
    itl = latencies([turn])["itl"]
    assert itl.n == 10
    assert itl.mean == pytest.approx(0.19)
    assert itl.p90.value == pytest.approx(0.1)
    assert itl.p99.value == pytest.approx(1.0)


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
@pytest.mark.parametrize("n", [400, 1000, 5003])
def test_order_statistics_hold_the_quantile_at_the_level_and_are_the_tightest(
    n: int, q: float
) -> None:
    low, high = rank_interval(n, q)
    below = stats.binom(n, q)  # samples below the true quantile
    assert below.cdf(high - 1) - below.cdf(low - 1) >= 0.95
    assert below.cdf(high - 2) < 0.975
    assert below.cdf(low) >= 0.025


def test_order_statistics_of_few_samples_stay_within_them() -> None:
    assert rank_interval(1, 0.5) == (1, 1)
    assert rank_interval(20, 0.99)[1] == 20
    assert rank_interval(368, 0.99)[1] == 368  # the first number that suffices for p99


def test_intervals_of_quantiles_cover_them() -> None:
    rng = np.random.default_rng(7)
    low, high = rank_interval(200, 0.9)
    samples = np.sort(rng.exponential(size=(2000, 200)), axis=1)
    truth = -np.log(0.1)
    covered = (samples[:, low - 1] <= truth) & (truth <= samples[:, high - 1])
    assert 0.94 <= covered.mean() <= 0.98
