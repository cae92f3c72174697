"""Which passes, which sessions, which seeds."""

from collections import Counter
from itertools import islice

import pytest

from loadjudge.errors import JudgeError
from loadjudge.load.plan import (
    PassPlan,
    choose,
    fillers,
    order,
    plays,
    ramp_fillers,
    request_seed,
    schedule,
)
from loadjudge.sessions.model import Session, Turn


def sessions(n: int, turns: int = 1) -> list[Session]:
    turn = Turn(({"role": "user", "content": "hi"},))
    return [Session(f"s{i}", "chat", (turn,) * turns) for i in range(n)]


@pytest.mark.parametrize(
    ("passes", "letters"), [(1, "SC"), (2, "SCCS"), (3, "SCCSSC"), (4, "SCCSSCCS")]
)
def test_neighbouring_passes_swap_places(passes: int, letters: str) -> None:
    assert "".join(arm[0].upper() for arm in order(passes)) == letters


def test_an_even_number_of_passes_balances_a_steady_drift_and_an_odd_one_nearly_does() -> None:
    for passes in range(1, 9):
        places = {arm: [i for i, a in enumerate(order(passes)) if a == arm] for arm in order(1)}
        assert len(places["stock"]) == len(places["candidate"]) == passes
        assert sum(places["candidate"]) - sum(places["stock"]) == passes % 2


def test_a_schedule_numbers_each_arms_passes_and_all_places() -> None:
    plan = schedule({"solo": 2, "busy": 2})
    assert plan[:4] == [
        PassPlan("solo", "stock", 0, 0),
        PassPlan("solo", "candidate", 0, 1),
        PassPlan("solo", "candidate", 1, 2),
        PassPlan("solo", "stock", 1, 3),
    ]
    assert [p.workload for p in plan[4:]] == ["busy"] * 4


def test_workloads_measure_disjoint_sessions_where_there_are_enough() -> None:
    chosen = choose(sessions(10), {"solo": 3, "team": 7}, 1)
    ids = {w: [s.id for s in of] for w, of in chosen.items()}
    assert [len(of) for of in ids.values()] == [3, 7]
    assert len(set(ids["solo"]) | set(ids["team"])) == 10


def test_too_few_sessions_go_round_in_turn() -> None:
    chosen = choose(sessions(4), {"solo": 3, "busy": 10}, 1)
    assert [s.id for s in chosen["busy"][:3]] == [s.id for s in chosen["solo"]]
    assert sorted(Counter(s.id for s in chosen["busy"]).values()) == [2, 2, 3, 3]


def test_the_choice_is_the_seeds() -> None:
    counts = {"solo": 8}
    assert choose(sessions(30), counts, 1) == choose(sessions(30), counts, 1)
    assert choose(sessions(30), counts, 1) != choose(sessions(30), counts, 2)


def test_no_sessions_are_nothing_to_play() -> None:
    with pytest.raises(JudgeError, match="no sessions to play"):
        choose([], {"solo": 1}, 1)


def test_repetitions_of_a_session_have_names_of_their_own() -> None:
    a, b = sessions(2)
    planned = plays([a, b, a, a])
    assert [p.play for p in planned] == ["s0#0", "s1#0", "s0#1", "s0#2"]
    assert all(p.measured and p.turns is None for p in planned)


def test_fillers_go_on_without_end_under_names_of_their_own() -> None:
    some = list(islice(fillers(sessions(3), 1), 9))
    assert len({p.play for p in some}) == 9
    assert not any(p.measured for p in some)
    for start in (0, 3, 6):  # each round holds each session once
        assert {p.session.id for p in some[start : start + 3]} == {"s0", "s1", "s2"}


def test_ramp_fillers_are_cut_after_a_turn_of_their_own() -> None:
    ramp = ramp_fillers(sessions(5, turns=4), 64, 1)
    assert len({p.play for p in ramp}) == len(ramp) == 64
    assert {p.turns for p in ramp} == {1, 2, 3, 4}
    assert ramp == ramp_fillers(sessions(5, turns=4), 64, 1)


def test_request_seeds_are_both_arms_alike_and_new_for_all_else() -> None:
    names = [
        (1, "solo", 0, "a#0", 0),
        (2, "solo", 0, "a#0", 0),
        (1, "busy", 0, "a#0", 0),
        (1, "solo", 1, "a#0", 0),
        (1, "solo", 0, "a#1", 0),
        (1, "solo", 0, "a#0", 1),
    ]
    seeds = [request_seed(*n) for n in names]
    assert len(set(seeds)) == len(seeds)
    assert seeds == [request_seed(*n) for n in names]
    assert all(0 <= s < 2**31 for s in seeds)


def test_one_engine_at_a_time_changes_places_three_times_over_all_workloads() -> None:
    plan = schedule({"solo": 3, "busy": 3}, "exclusive")
    assert "".join(p.arm[0] for p in plan) == "ss" + "cccc" + "ssss" + "cc"
    assert [p.workload for p in plan] == ["solo", "busy"] * 6
    assert {*plan} == {*schedule({"solo": 3, "busy": 3})}


def test_more_passes_only_add_to_a_plan_of_one_engine_at_a_time() -> None:
    before = schedule({"solo": 2, "busy": 2}, "exclusive")
    after = schedule({"solo": 2, "busy": 3}, "exclusive")
    assert after[: len(before)] == before
    assert {p.workload for p in after[len(before) :]} == {"busy"}
