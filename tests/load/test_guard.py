"""Each reason why a run can't be trusted, alone."""

from typing import Any

import pytest

from loadjudge.load.guard import lag_share, median_tpot, noisy, reasons

LAG = {"n": 100, "mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0}


def one(make: Any, plays: Any = None, **changes: Any) -> Any:
    """A pass of verify steps 0.9 s apart, nine tokens each: 0.1 s a token."""
    return make.one_pass("stock", 0, plays or [make.play(f"s{i}", 10) for i in range(3)], **changes)


def test_a_sound_pass_has_no_reason(make: Any) -> None:
    assert reasons([one(make)]) == []
    assert median_tpot(one(make)) == pytest.approx(0.1)


@pytest.mark.parametrize(("lag_s", "late"), [(0.044, False), (0.046, True)])
@pytest.mark.parametrize(("cpu", "figure"), [(0.5, "mean"), (0.49, "p50")])
def test_a_loop_that_lags_by_a_twentieth_of_a_verify_step_is_late(
    make: Any, lag_s: float, late: bool, cpu: float, figure: str
) -> None:
    """A client that works counts with its mean lag, one that mostly sleeps with its median."""
    lagged = one(make, cpu=cpu, lag={**LAG, figure: lag_s})
    assert lag_share(lagged) == pytest.approx(lag_s / 0.9)
    found = reasons([lagged])
    assert [r.startswith("the client was late in solo pass 1 of stock") for r in found] == (
        [True] if late else []
    )


def test_a_sleeping_client_that_the_machine_wakes_late_is_noise_and_no_reason(make: Any) -> None:
    woken_late = one(make, cpu=0.1, lag={**LAG, "mean": 0.05})
    assert reasons([woken_late]) == []
    assert noisy([woken_late, one(make)]) == [woken_late]


def test_where_no_token_was_counted_the_lag_has_no_share(make: Any) -> None:
    uncounted = one(make, [make.play("a", None)], lag={**LAG, "mean": 9.0, "p50": 9.0})
    assert lag_share(uncounted) is None
    assert reasons([uncounted]) == []


def test_a_client_that_uses_its_core_up_is_no_clock(make: Any) -> None:
    assert reasons([one(make, cpu=0.95)]) == []
    assert "used 96% of a core" in reasons([one(make, cpu=0.96)])[0]


@pytest.mark.parametrize(
    ("mean", "most", "trusted"),
    [(16, 16, True), (13.5, 16, True), (13.3, 16, False), (15, 17, False)],
)
def test_the_server_must_see_the_lanes(make: Any, mean: float, most: float, trusted: bool) -> None:
    seen = {"mean": mean, "max": most, "samples": 10.0}
    found = reasons([one(make, lanes=16, in_flight=seen)])
    assert (found == []) == trusted
    assert trusted or "not the 16 lanes" in found[0]


def test_a_few_looks_say_nothing(make: Any) -> None:
    seen = {"mean": 1.0, "max": 1.0, "samples": 3.0}
    assert reasons([one(make, lanes=16, in_flight=seen)]) == []
    assert reasons([one(make, lanes=16, in_flight=None)]) == []


def test_lanes_that_wait_as_scripted_may_be_fewer_and_never_more(make: Any) -> None:
    waiting = [make.play("a", 10, waited_s=1.0)]
    few = {"mean": 2.0, "max": 9.0, "samples": 10.0}
    assert reasons([one(make, waiting, lanes=16, in_flight=few)]) == []
    assert len(reasons([one(make, waiting, lanes=8, in_flight=few)])) == 1


@pytest.mark.parametrize(("failed", "trusted"), [(1, True), (2, False)])
def test_one_turn_in_a_hundred_may_fail(make: Any, failed: int, trusted: bool) -> None:
    plays = [make.play(f"s{i}", 10) for i in range(100 - failed)]
    plays += [make.failed_play(f"f{i}") for i in range(failed)]
    found = reasons([one(make, plays)])
    assert (found == []) == trusted
    assert trusted or "2 of 100 measured turns failed" in found[0]


def test_fillers_that_fail_are_not_counted(make: Any) -> None:
    plays = [make.play("a", 10), make.failed_play("f", measured=False)]
    assert reasons([one(make, plays)]) == []


def test_a_measured_session_that_was_cut_is_named(make: Any) -> None:
    plays = [make.play("a", 10, outcome="cut"), make.play("b", 10, outcome="cut", measured=False)]
    assert reasons([one(make, plays)]) == ["session a was cut in solo pass 1 of stock"]


def test_nothing_measured_is_a_reason(make: Any) -> None:
    assert reasons([]) == ["no measured turn was played"]
