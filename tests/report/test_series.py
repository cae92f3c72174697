"""Series against values worked out by hand."""

from collections.abc import Callable

import numpy as np
import pytest

from loadjudge.record.values import PassRecord, PlayRecord, RunRecord, TurnRecord
from loadjudge.report import series

MakeTurn = Callable[..., TurnRecord]
MakePass = Callable[..., PassRecord]


def play(*turns: TurnRecord, measured: bool = True) -> PlayRecord:
    return PlayRecord("s", "s#0", measured, 0, turns, "done", 0.0)


def test_time_to_first_token_starts_when_the_turn_is_sent(
    make_turn: MakeTurn, make_pass: MakePass
) -> None:
    turns = (
        make_turn(0, 1.0, arrivals=((1.25, 1, 4),)),
        make_turn(1, 2.0, arrivals=((2.5, 1, 4),)),
        make_turn(2, 3.0, error=("timeout", "…")),
    )
    filler = play(make_turn(0, 0.0), measured=False)
    record = make_pass((play(*turns), filler))
    assert series.first_token_times([record]).tolist() == [0.25, 0.5]


def test_k_tokens_after_a_gap_count_k_times(make_turn: MakeTurn, make_pass: MakePass) -> None:
    turn = make_turn(arrivals=((1.0, 2, 8), (1.3, 3, 12), (1.4, 1, 4)))
    gaps, weights = series.token_gaps([make_pass((play(turn),))])
    assert gaps == pytest.approx([0.1, 0.1])
    assert weights.tolist() == [3.0, 1.0]


def test_a_trusted_count_is_spread_by_characters_where_ids_are_missing(
    make_turn: MakeTurn,
) -> None:
    turn = make_turn(arrivals=((1.0, None, 10), (1.1, None, 30)), tokens=8, source="tokenizer")
    assert series.arrival_tokens(turn).tolist() == [2.0, 6.0]


def test_what_an_engine_claims_per_chunk_is_not_believed(make_turn: MakeTurn) -> None:
    turn = make_turn(arrivals=((1.0, 5, 10), (1.1, 5, 10)), tokens=2, source="usage")
    assert series.arrival_tokens(turn).tolist() == [1.0, 1.0]


def test_an_unknown_count_and_a_failed_turn_bring_no_tokens(make_turn: MakeTurn) -> None:
    assert len(series.arrival_tokens(make_turn(tokens=None, source=None))) == 0
    assert len(series.arrival_tokens(make_turn(error=("timeout", "…")))) == 0


def test_ecdf_by_hand() -> None:
    x, y = series.ecdf(np.array([3.0, 1.0, 2.0]), np.array([2.0, 1.0, 1.0]))
    assert x.tolist() == [1.0, 2.0, 3.0]
    assert y == pytest.approx([0.25, 0.5, 1.0])


def test_a_long_ecdf_is_thinned_and_keeps_its_ends() -> None:
    values = np.random.default_rng(0).normal(size=100_000)
    x, y = series.ecdf(values)
    assert len(x) <= 500
    assert x[0] == values.min()
    assert (x[-1], y[-1]) == (values.max(), pytest.approx(1.0))
    assert np.interp(0.0, x, y) == pytest.approx(0.5, abs=0.01)


def test_quantiles_weigh_samples() -> None:
    values = np.array([1.0, 2.0, 3.0, 4.0])
    assert series.quantile(values, 0.5) == 2.0
    assert series.quantile(values, 0.5, np.array([1.0, 1.0, 1.0, 5.0])) == 4.0


def test_throughput_counts_tokens_of_all_plays_per_second(
    make_turn: MakeTurn, make_pass: MakePass
) -> None:
    first = play(make_turn(arrivals=((0.5, 3, 9), (2.0, 5, 9))))
    filler = play(make_turn(arrivals=((0.9, 1, 3),)), measured=False)
    edges, rates = series.throughput(make_pass((first, filler)), bins=2)
    assert edges.tolist() == [0.0, 1.0, 2.0]
    assert rates.tolist() == [4.0, 5.0]


def test_turns_in_flight_from_sent_to_last_token(make_turn: MakeTurn, make_pass: MakePass) -> None:
    a = play(make_turn(0, 0.0, arrivals=((1.0, 1, 4), (2.0, 1, 4))))
    b = play(make_turn(0, 1.0, arrivals=((1.5, 1, 4), (4.0, 1, 4))))
    times, counts = series.in_flight(make_pass((a, b)))
    assert times.tolist() == [0.0, 1.0, 2.0, 4.0]
    assert counts.tolist() == [1.0, 2.0, 1.0, 0.0]
    edges, means = series.step_means(times, counts, bins=2)
    assert edges.tolist() == [0.0, 2.0, 4.0]
    assert means == pytest.approx([1.5, 1.0])


def test_a_failed_turn_is_in_flight_until_it_is_given_up(
    make_turn: MakeTurn, make_pass: MakePass
) -> None:
    failed = make_turn(0, 0.0, arrivals=(), done_s=30.0, error=("timeout", "…"))
    times, _ = series.in_flight(make_pass((play(failed),)))
    assert times.tolist() == [0.0, 30.0]


def test_tokens_per_arrival_by_turn(make_turn: MakeTurn, make_pass: MakePass) -> None:
    first = make_turn(0, arrivals=((0.1, 1, 4), (0.2, 3, 4)))
    second = make_turn(1, arrivals=((0.1, 4, 4),))
    record = make_pass(tuple(play(first, second) for _ in range(3)))
    index, mean, turns = series.tokens_by_turn([record])
    assert index.tolist() == [0, 1]
    assert mean == pytest.approx([2.0, 4.0])
    assert turns.tolist() == [3.0, 3.0]


def test_empty_passes_give_empty_series(make_pass: MakePass) -> None:
    record = make_pass(())
    for curve in (
        series.token_gaps([record]),
        series.throughput(record),
        series.in_flight(record),
        series.tokens_by_turn([record])[:2],
    ):
        assert [len(part) for part in curve] == [0, 0]


def test_every_curve_of_a_run_is_bounded(run: RunRecord) -> None:
    for record in run.passes:
        assert len(series.throughput(record)[0]) <= 500
        assert len(series.step_means(*series.in_flight(record))[0]) <= 500
        assert len(series.ecdf(*series.token_gaps([record]))[0]) <= 500
