"""Speedups and SpecScore against figures worked out by hand, and against the seed records."""

import math
from pathlib import Path
from typing import Any

import pytest

from loadjudge.record.evaluation import read_evaluation
from loadjudge.score.speed import control, counted, geometric_mean, pair, pass_ratio, speed

RECORDS = Path(__file__).parents[3] / "shared" / "data" / "records"
SEEDS = ("qwen3-8b-development-1.946", "qwen35-27b-development-1.318")


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_records_figures_follow_from_its_passes_to_the_last_digit(name: str) -> None:
    path = RECORDS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the seed record {path} isn't here")
    seed = read_evaluation(path)
    again = {w: pass_ratio(r.passes) for w, r in seed.ratios.items()}
    assert again == seed.ratios
    assert geometric_mean([r.ratio for r in again.values()]) == seed.specscore == seed.score


def test_a_pass_ratio_is_the_sums_ratio_and_not_the_mean_of_ratios(make: Any) -> None:
    stock = [make.one_pass("stock", 0, [make.play("a", 100, 2.0), make.play("b", 300, 3.0)])]
    candidate = [make.one_pass("candidate", 0, [make.play("a", 120, 1.0), make.play("b", 200, 1)])]
    both = pair(candidate, stock)
    assert both.stock.rate().tolist() == [400 / 5]
    assert both.candidate.rate().tolist() == [320 / 2]
    assert speed({"solo": both}, 1).ratios["solo"].passes == [2.0]


def test_the_speedup_is_the_median_of_passes_and_the_pooled_ratio_their_sums(make: Any) -> None:
    both = pair(make.passes("candidate", [200, 300, 100]), make.passes("stock", [100, 100, 100]))
    figures = speed({"solo": both}, 1)
    assert figures.ratios["solo"].passes == pytest.approx([2, 3, 1])
    assert figures.ratios["solo"].ratio == pytest.approx(2)
    # 2,400 tokens on each arm: in 8 · (1/2 + 1/3 + 1) s, and in 24 s.
    assert figures.pooled["solo"].ratio == pytest.approx(24 / (8 * (1 / 2 + 1 / 3 + 1)))
    assert figures.pooled["solo"].sessions == 8


def test_specscore_is_the_geometric_mean_of_the_workloads(make: Any) -> None:
    pairs = {
        w: pair(make.passes("candidate", [rate]), make.passes("stock", [100]))
        for w, rate in (("solo", 200), ("team", 400), ("busy", 100))
    }
    figures = speed(pairs, 1)
    assert figures.specscore == pytest.approx(2)
    assert figures.interval.specscore == figures.specscore


def test_scripted_waits_are_no_lane_time(make: Any) -> None:
    turns = (make.turn(10, sent_s=0, seconds=1), make.turn(10, sent_s=4, seconds=1))
    assert make.play("a", turns=turns, waited_s=3.0).lane_s == 2.0


def test_a_last_turn_without_a_token_takes_the_lanes_time_until_its_body_ends(make: Any) -> None:
    """It used to end the play at the turn before, and a wait before it made the time negative."""
    empty = make.turn(0, sent_s=4, seconds=1, arrivals=(), token_ids=None)
    play = make.play("a", turns=(make.turn(10, sent_s=0, seconds=1), empty), waited_s=3.0)
    assert play.lane_s == 2.0


def test_a_session_lost_on_one_arm_leaves_its_pass_on_both_and_no_other(make: Any) -> None:
    stock = make.passes("stock", [100, 100], sessions=2)
    first = make.one_pass("candidate", 0, [make.play("s0", 100, 0.5), make.failed_play("s1")])
    both = pair([first, make.passes("candidate", [200, 200], sessions=2)[1]], stock)
    assert both.stock.tokens.tolist() == both.candidate.tokens.tolist() == [[100, 0], [100, 100]]
    assert both.stock.seconds.tolist() == [[1, 0], [1, 1]]


def test_only_the_lost_repetition_of_a_session_is_left_out(make: Any) -> None:
    """Both repetitions counted on the arm that had lost none."""

    def repeated(arm: str, second: Any) -> Any:
        return [make.one_pass(arm, 0, [make.play("a", 100, 1.0), second])]

    stock = repeated("stock", make.play("a", 50, 2.0, play="a#1"))
    both = pair(repeated("candidate", make.failed_play("a", play="a#1")), stock)
    assert both.stock.tokens.tolist() == [[100]]
    assert both.stock.seconds.tolist() == [[1]]


def test_a_play_with_a_reply_that_was_not_counted_does_not_count(make: Any) -> None:
    """Its time went into the rate and its tokens did not."""
    one = make.one_pass("stock", 0, [make.play("a", 100), make.play("b", None)])
    assert list(counted(one)) == ["a#0"]


def test_a_session_that_was_never_finished_is_no_cluster(make: Any) -> None:
    """One session and three lost ones had an interval of no width."""
    lost = [make.failed_play(f"s{i}") for i in range(1, 4)]
    candidate = [make.one_pass("candidate", 0, [make.play("s0", 100, 0.5), *lost])]
    figures = speed({"solo": pair(candidate, make.passes("stock", [100]))}, 1)
    assert figures.pooled["solo"].sessions == 1
    assert (figures.pooled["solo"].low, figures.pooled["solo"].high) == (0, math.inf)


def test_a_pass_without_a_play_in_common_is_not_playable(make: Any) -> None:
    candidate = [make.one_pass("candidate", 0, [make.failed_play("s0")])]
    assert not pair(candidate, make.passes("stock", [100])).playable
    assert pair(make.passes("candidate", [100]), make.passes("stock", [100])).playable


def test_the_control_divides_the_second_stock_pass_by_its_neighbours(make: Any) -> None:
    figures = control({"solo": make.passes("stock", [100, 150, 300])}, 1)
    assert figures is not None
    assert figures.ratios["solo"].passes == pytest.approx([150 / 100, 150 / 300])
    assert figures.ratios["solo"].ratio == pytest.approx(1.0)
    # 600 tokens in 4 s, against 1,200 in 6 s and 2 s.
    assert figures.pooled["solo"].ratio == pytest.approx((600 / 4) / (1200 / 8))


@pytest.mark.parametrize("n", range(2, 8))
def test_the_control_takes_any_number_of_passes(make: Any, n: int) -> None:
    """Five passes are two odd ones and three even ones, which did not fit together."""
    figures = control({"solo": make.passes("stock", [100.0] * n)}, 1)
    assert figures is not None
    assert figures.specscore.specscore == pytest.approx(1)
    assert len(figures.ratios["solo"].passes) == n - 1


def test_one_stock_pass_gives_no_control(make: Any) -> None:
    assert control({"solo": make.passes("stock", [100])}, 1) is None
    assert control({}, 1) is None


def test_a_stock_pass_without_a_finished_play_gives_no_control(make: Any) -> None:
    passes = [*make.passes("stock", [100]), make.one_pass("stock", 1, [make.failed_play("s0")])]
    assert control({"solo": passes}, 1) is None


def _drifting(make: Any, arm: str, places: list[int], drift: float) -> Any:
    """Passes of an engine of 100 tokens/s on a machine that quickens by ``drift`` a place."""
    return make.passes(arm, [100 * math.exp(drift * place) for place in places])


def test_a_steady_drift_cancels_over_two_pairs_of_passes(make: Any) -> None:
    both = pair(_drifting(make, "candidate", [1, 2], 0.02), _drifting(make, "stock", [0, 3], 0.02))
    figures = speed({"solo": both}, 1)
    assert math.log(figures.ratios["solo"].ratio) == pytest.approx(0, abs=5e-4)
    assert math.log(figures.pooled["solo"].ratio) == pytest.approx(0, abs=1e-3)


def test_of_a_steady_drift_three_pairs_leave_one_place_and_the_control_shows_it(make: Any) -> None:
    stock = _drifting(make, "stock", [0, 3, 4], 0.02)
    both = pair(_drifting(make, "candidate", [1, 2, 5], 0.02), stock)
    figures = speed({"solo": both}, 1)
    assert math.log(figures.ratios["solo"].ratio) == pytest.approx(0.02)
    assert math.log(figures.pooled["solo"].ratio) == pytest.approx(0.02 / 3, abs=1e-3)
    shown = control({"solo": stock}, 1)
    assert shown is not None
    assert math.log(shown.ratios["solo"].ratio) == pytest.approx(0.02, abs=1e-3)
