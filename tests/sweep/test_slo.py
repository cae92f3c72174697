"""Objectives: what is asked, and what is shown."""

from types import SimpleNamespace

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.sweep.slo import Slo, good_turn, look, parse_goodput, parse_search, sample_of


def test_words_as_vllm_bench_serve_takes_them() -> None:
    assert parse_goodput(["ttft:200", "tpot:50.5"]) == {"ttft": 200.0, "tpot": 50.5}
    assert parse_goodput(["ttft:200 tpot:50"]) == {"ttft": 200.0, "tpot": 50.0}
    assert parse_search(["ttft:p99:200,itl:mean:30"]) == (
        Slo(metric="ttft", stat="p99", limit_ms=200),
        Slo(metric="itl", stat="mean", limit_ms=30),
    )
    assert str(parse_search(["tpot:p99.9:50"])[0]) == "TPOT p99.9 ≤ 50 ms"


@pytest.mark.parametrize("word", ["ttft", "ttft:x", "itl:50", "ttft:-1", "speed:3", "ttft:p99:3"])
def test_what_is_no_goodput_is_told(word: str) -> None:
    with pytest.raises(JudgeError, match="ttft:200") as told:
        parse_goodput([word])
    assert told.value.status == Status.USAGE


@pytest.mark.parametrize("word", ["ttft:200", "ttft:p100:2", "ttft:p0:2", "ttft:max:2", "x:p9:2"])
def test_what_is_no_search_is_told(word: str) -> None:
    with pytest.raises(JudgeError, match="ttft:p99:200"):
        parse_search([word])


def test_a_good_turn_keeps_every_limit(make: SimpleNamespace) -> None:
    turn = make.turn(10, seconds=1.0)  # TTFT 100 ms, TPOT 100 ms, E2EL 1 s
    assert good_turn(turn, {"ttft": 100.0, "tpot": 100.1, "e2el": 1000.0})
    assert not good_turn(turn, {"ttft": 99.0, "tpot": 1e9})
    assert not good_turn(turn, {"ttft": 1e9, "tpot": 99.0})
    assert not good_turn(make.failed_turn(), {"ttft": 1e9})
    one = make.turn(1, seconds=0.05)
    assert good_turn(one, {"ttft": 100.0, "tpot": 1.0})  # no time between tokens, as in vLLM


def plays(make: SimpleNamespace, seconds: list[float]) -> list[object]:
    """A session of one turn for each; TTFT is a tenth of its seconds."""
    return [make.play(f"s{i}", tokens=10, seconds=s) for i, s in enumerate(seconds)]


def test_what_many_sessions_show_is_shown(make: SimpleNamespace) -> None:
    slo = Slo(metric="ttft", stat="p90", limit_ms=200)
    kept = look(slo, plays(make, [1.0] * 60), 0)
    assert kept is not None
    assert (kept.verdict, kept.keeps) == ("keeps", True)
    assert kept.figure_s == pytest.approx(0.1)
    missed = look(slo, plays(make, [1.0] * 30 + [3.0] * 30), 0)
    assert missed is not None
    assert (missed.verdict, missed.keeps) == ("misses", False)


def test_what_few_sessions_seem_to_show_is_undecided(make: SimpleNamespace) -> None:
    # All of 20 turns keep it, but fewer than 90 % could do so and show that in one of eight cases.
    seen = look(Slo(metric="ttft", stat="p90", limit_ms=200), plays(make, [1.0] * 20), 0)
    assert seen is not None
    assert (seen.verdict, seen.keeps) == ("undecided", True)


def test_failed_turns_miss_every_limit(make: SimpleNamespace) -> None:
    slo = Slo(metric="ttft", stat="p90", limit_ms=1e6)
    some = [*plays(make, [1.0] * 80), *(make.failed_play(f"x{i}") for i in range(40))]
    seen = look(slo, some, 0)
    assert seen is not None
    assert (seen.verdict, seen.keeps, seen.figure_s) == ("misses", False, float("inf"))
    mean = look(Slo(metric="ttft", stat="mean", limit_ms=1e6), some, 0)
    assert mean is not None
    assert mean.verdict == "misses"


def test_a_mean_is_held_by_its_own_interval(make: SimpleNamespace) -> None:
    played = plays(make, [0.9, 1.0, 1.1] * 10)
    for limit, verdict in ((120, "keeps"), (100, "undecided"), (80, "misses")):
        seen = look(Slo(metric="ttft", stat="mean", limit_ms=limit), played, 0)
        assert seen is not None
        assert seen.verdict == verdict
        assert seen.figure_s == pytest.approx(0.1)


def test_nothing_to_hold_against_it(make: SimpleNamespace) -> None:
    one_token = [make.play("s", tokens=1)]
    assert look(Slo(metric="tpot", stat="p50", limit_ms=1), one_token, 0) is None


def test_inter_token_latencies_weigh_by_their_tokens(make: SimpleNamespace) -> None:
    # The turn's nine later tokens come at once, 0.9 s after the first.
    sample = sample_of(plays(make, [1.0]), "itl")
    assert sample is not None
    assert sample.values == pytest.approx([0.1])
    assert sample.weights == pytest.approx([9.0])
    assert sample.turns == 1
