"""From passes to a sweep's record."""

import pytest

from loadjudge.sweep.figures import search_step, sweep_record
from loadjudge.sweep.search import SearchResult
from loadjudge.sweep.slo import Slo
from tests.factories import failed_play, play, turn
from tests.sweep.sweeps import pass_at, sweep_run, two_arms

P90 = Slo(metric="ttft", stat="p90", limit_ms=150)


def test_figures_of_two_arms() -> None:
    record = sweep_record(two_arms(goodput={"ttft": 110.0}))
    assert [p.lanes for p in record.points] == [1, 2, 4, 8, 16]
    eight = record.points[3].arms["stock"]
    assert eight.total.value == pytest.approx(800, rel=0.01)
    assert eight.per_user.value == pytest.approx(100, rel=0.01)
    assert eight.per_user.low < 100 < eight.per_user.high
    assert eight.total.high / eight.total.value == pytest.approx(
        eight.per_user.high / eight.per_user.value
    )
    assert eight.requests_per_s == pytest.approx(8, rel=0.01)
    # TTFT is a tenth of a turn's second: all keep 110 ms up to 8 lanes, none at 16.
    assert eight.good is not None
    assert eight.good.value == 1.0
    assert eight.goodput is not None
    assert eight.goodput.value == pytest.approx(8, rel=0.01)
    sixteen = record.points[4].arms["stock"].goodput
    assert sixteen is not None
    assert sixteen.value == 0.0
    speedup = record.points[4].speedup
    assert speedup is not None
    assert speedup.ratio == pytest.approx(1.5, rel=0.01)
    # The candidate's power is 800 · 200 at 4 lanes, 1,200 · 150 at 8 and 1,200 · 75 at 16.
    assert {arm: k.point for arm, k in record.knees.items()} == {
        "stock": "lanes-8",
        "candidate": "lanes-8",
    }


def test_a_late_client_makes_its_point_invalid_and_no_other() -> None:
    late = {"n": 100, "mean": 0.2, "p50": 0.2, "p99": 0.3, "max": 0.4}
    passes = [pass_at(n, "stock", 100, lag=late if n == 16 else dict(late, mean=0, p50=0))
              for n in (1, 2, 4, 8, 16)]  # fmt: skip
    record = sweep_record(sweep_run(passes))
    assert [p.arms["stock"].valid for p in record.points] == [True, True, True, True, False]
    assert "the client was late" in record.points[4].arms["stock"].invalid[0]
    assert record.knees["stock"].point == "lanes-8"  # what can't be trusted has no part in it


def test_what_passes_differ_by_widens_all_intervals() -> None:
    quiet = [pass_at(n, "stock", 100, k) for n in (1, 2, 4) for k in range(2)]
    noisy = [pass_at(n, "stock", 100 * (1.2 if k else 1), k) for n in (1, 2, 4) for k in range(2)]
    widths = []
    for passes in (quiet, noisy):
        rate = sweep_record(sweep_run(passes)).points[0].arms["stock"].per_user
        widths.append((rate.high - rate.low) / rate.value)
    assert widths[1] > 5 * widths[0]
    # Six passes at three points are three degrees of freedom, not one: no absurd widths.
    assert widths[1] < 1.0


def test_a_session_that_was_hit_by_a_hiccup_does_not_blow_the_interval_up() -> None:
    plays = [play(f"s{i}", 100, 1.0 + 1e-6 * i) for i in range(11)] + [play("slow", 100, 3.0)]
    one = pass_at(1, "stock", 100, plays=tuple(plays))
    rate = sweep_record(sweep_run([one])).points[0].arms["stock"].per_user
    assert rate.high / rate.low < 3


def test_failed_turns_stand_beside_and_make_the_point_invalid() -> None:
    one = pass_at(2, "stock", 100)
    one = pass_at(2, "stock", 100, plays=(*one.plays, failed_play("bad")))
    figures = sweep_record(sweep_run([one])).points[0].arms["stock"]
    assert figures.figures.failed_turns == 1
    assert not figures.valid
    assert figures.per_user.value == pytest.approx(100, rel=0.01)
    # A failed turn has no latency: its time would be one of a refusal.
    assert figures.figures.latencies["ttft"].n == 12


def open_pass(durations: list[float], rate: float = 1.0) -> object:
    """Sessions that come every second and take so long each."""
    plays = [
        play(f"s{i}", turns=(turn(20, sent_s=float(i), seconds=d),))
        for i, d in enumerate(durations)
    ]
    close = max(i + d for i, d in enumerate(durations))
    return pass_at(
        0, "stock", 1.0, plays=tuple(plays), rate=rate, close_s=close, workload=f"rate-{rate:g}"
    )


def test_an_open_loop_that_keeps_up() -> None:
    record = sweep_record(sweep_run([open_pass([2.0] * 40)]))  # type: ignore[list-item]
    point = record.points[0]
    assert (point.lanes, point.rate) == (None, 1.0)
    figures = point.arms["stock"]
    assert figures.notes == []
    assert figures.in_flight == pytest.approx(2.0, rel=0.05)
    assert figures.total.value == pytest.approx(20, rel=0.08)


def test_sessions_that_pile_up_are_told() -> None:
    record = sweep_record(sweep_run([open_pass([1.0 + 0.8 * i for i in range(40)])]))  # type: ignore[list-item]
    assert "does not keep up" in record.points[0].arms["stock"].notes[0]


def test_a_search_is_a_function_of_the_log() -> None:
    search = {"slos": [P90.model_dump()], "most": 64, "passes": 2}
    # TTFT is a tenth of a turn: 100 ms at 8 lanes, 200 ms at 16.
    fast = pass_at(8, "stock", 100, sessions=120)
    slow = pass_at(16, "stock", 50, sessions=120)
    steps = [
        search_step(sweep_run(passes, search=search), "stock")
        for passes in ([], [fast], [fast, slow])
    ]
    assert steps == [8, 16, 11]
    middle = [pass_at(n, "stock", 800 / n, sessions=120) for n in (11, 12)]
    done = sweep_run([fast, slow, *middle], search=search)
    found = search_step(done, "stock")
    assert isinstance(found, SearchResult)
    assert (found.lanes, found.misses, found.shown_to_keep, found.shown_to_miss) == (11, 12, 11, 12)
    record = sweep_record(done)
    assert record.search["stock"] == found
    assert [p.arms["stock"].slos[0].verdict for p in record.points] == [
        "keeps", "keeps", "misses", "misses",
    ]  # fmt: skip


def test_an_endpoint_that_refuses_misses_the_objective() -> None:
    """Refusals make a point's speeds invalid; to a search they are the endpoint's own answer."""
    search = {"slos": [P90.model_dump()], "most": 64, "passes": 2}
    refused = [failed_play(f"x{i}") for i in range(60)]
    good = pass_at(8, "stock", 100, sessions=120)
    found = search_step(
        sweep_run([pass_at(8, "stock", 100, plays=(*good.plays, *refused))], search=search), "stock"
    )
    assert found == 4  # half of 8: a miss


def test_the_record_goes_to_json_and_back() -> None:
    record = sweep_record(sweep_run([pass_at(1, "stock", 100, sessions=1)]))
    rate = record.points[0].arms["stock"].per_user
    assert rate.high == float("inf")  # one session bounds nothing
    assert type(record).model_validate_json(record.to_bytes()) == record
