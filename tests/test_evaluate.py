"""From a run to its record: verdicts, reasons, scores, and what the record says of each arm."""

import runpy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadjudge.evaluate import control_notes, evaluate, verdict_of
from loadjudge.gates.checks import asked_for
from loadjudge.gates.sequential import level_at, look_note
from loadjudge.gates.simulate import replies
from loadjudge.record.evaluation import (
    Control,
    Gate,
    Limits,
    Pooled,
    SpecScoreInterval,
    read_evaluation,
)
from loadjudge.record.values import ARMS, MemoryPeak

PASS, FAIL = Gate(verdict="pass", sentence="sound"), Gate(verdict="fail", sentence="broken")
OPEN, NONE = Gate(verdict="inconclusive", sentence="open"), Gate(verdict="n/a", sentence="none")


@pytest.fixture(scope="session")
def make() -> SimpleNamespace:
    return SimpleNamespace(**runpy.run_path(str(Path(__file__).with_name("factories.py"))))


@pytest.fixture
def passes(make: Any) -> list[Any]:
    return [*make.passes("stock", [100, 101, 102]), *make.passes("candidate", [200, 202, 204])]


@pytest.mark.parametrize("rule", ["decide", "reject"])
def test_a_sound_run_passes_and_its_score_is_specscore(
    make: Any, passes: list[Any], rule: str
) -> None:
    record = evaluate(make.run(passes, rule=rule))
    assert (record.verdict, record.reason, record.invalid) == ("passed", None, [])
    assert record.score == record.specscore == pytest.approx(2)
    assert record.rule == rule
    verdicts = {name: gate.verdict for name, gate in (record.gates or {}).items()}
    assert {verdicts[name] for name in ("memory", "fidelity", "agreement", "lengths")} == {"pass"}
    assert not {"fail", "inconclusive"} & set(verdicts.values())


def test_a_failed_gate_fails_the_run_with_a_score_of_nothing(make: Any, passes: list[Any]) -> None:
    heavy = (MemoryPeak("stock", 1000.0, "rss"), MemoryPeak("candidate", 2000.0, "rss"))
    record = evaluate(make.run(passes, memory=heavy))
    assert (record.verdict, record.score) == ("failed", 0.0)
    assert record.specscore == pytest.approx(2)
    assert (record.reason or "").startswith("memory: peak resident memory is 2,000 MiB")


@pytest.mark.parametrize(("rule", "verdict"), [("decide", "inconclusive"), ("reject", "passed")])
def test_an_undecided_gate_stops_a_run_under_decide_alone(
    make: Any, rule: str, verdict: str
) -> None:
    one = [*make.passes("stock", [100], sessions=1), *make.passes("candidate", [200], sessions=1)]
    record = evaluate(make.run(one, rule=rule))
    assert record.gates is not None
    assert record.gates["lengths"].verdict == "inconclusive"
    assert record.verdict == verdict
    assert (record.reason is None) == (verdict == "passed")
    assert record.score == pytest.approx(2)


@pytest.mark.parametrize(
    ("gates", "invalid", "rule", "expected"),
    [
        ([PASS, FAIL, OPEN], ["late"], "decide", ("invalid", "late")),
        ([OPEN, PASS, FAIL], [], "decide", ("failed", "g2: broken")),
        ([OPEN, PASS, FAIL], [], "reject", ("failed", "g2: broken")),
        ([PASS, OPEN, NONE], [], "decide", ("inconclusive", "g1: open")),
        ([PASS, OPEN, NONE], [], "reject", ("passed", None)),
        ([PASS, NONE], [], "decide", ("passed", None)),
    ],
)
def test_invalid_goes_before_failed_before_inconclusive(
    gates: list[Gate], invalid: list[str], rule: str, expected: tuple[str, str | None]
) -> None:
    assert verdict_of({f"g{i}": g for i, g in enumerate(gates)}, invalid, rule) == expected


def test_an_invalid_run_has_no_score_whatever_its_gates_say(make: Any, passes: list[Any]) -> None:
    late = {"n": 100, "mean": 0.1, "p50": 0.1, "p99": 0.1, "max": 0.1}
    lagged = make.one_pass("stock", 0, [make.play(f"s{i}", 100, 1.0) for i in range(6)], lag=late)
    record = evaluate(make.run([lagged, *passes[1:]]))
    assert (record.verdict, record.score) == ("invalid", None)
    assert record.specscore == pytest.approx(2, rel=0.02)
    assert "event loop lagged" in (record.reason or "")


def test_an_interrupted_run_is_invalid_and_shows_what_it_has(make: Any, passes: list[Any]) -> None:
    record = evaluate(make.run(passes[:4], complete=False))
    assert record.verdict == "invalid"
    assert record.reason == "the run is not complete: it was interrupted"
    assert record.ratios["solo"].passes == pytest.approx([2])
    assert record.score is None


def test_a_run_that_died_says_why_in_one_line(make: Any, passes: list[Any]) -> None:
    died = {"event": "died", "sentence": "the engine died; its log ends:\n  boom"}
    record = evaluate(make.run(passes[:2], complete=False, died=died))
    assert record.reason == "the run is not complete: the engine died; its log ends:"


def test_a_run_without_a_pass_can_be_evaluated(make: Any) -> None:
    record = evaluate(make.run([], complete=False))
    assert (record.verdict, record.specscore, record.ratios) == ("invalid", None, {})
    assert record.control is None


def test_a_pass_that_one_arm_lost_wholly_makes_the_run_invalid(
    make: Any, passes: list[Any]
) -> None:
    lost = make.one_pass("candidate", 2, [make.failed_play(f"s{i}") for i in range(6)])
    record = evaluate(make.run([*passes[:5], lost]))
    assert record.verdict == "invalid"
    assert record.ratios == {}
    assert any("no measured session" in reason for reason in record.invalid or ())


@pytest.mark.parametrize("n", [1, 2, 4, 5])
def test_any_number_of_passes_can_be_evaluated(make: Any, n: int) -> None:
    played = [*make.passes("stock", [100.0] * n), *make.passes("candidate", [150.0] * n)]
    record = evaluate(make.run(played))
    assert record.specscore == pytest.approx(1.5)
    assert (record.control is None) == (n == 1)


@pytest.mark.parametrize(
    ("solo", "all_of_them", "notes"),
    [
        ((0.97, 1.05), (0.96, 1.04), []),
        ((1.01, 1.05), (1.01, 1.04), ["stock against itself is 1.020 (1.010 to 1.050) at solo"]),
        ((0.97, 1.05), (1.01, 1.04), ["stock against itself is 1.010 (1.010 to 1.040) over all"]),
    ],
)
def test_a_stock_that_differs_from_itself_is_told(
    solo: tuple[float, float], all_of_them: tuple[float, float], notes: list[str]
) -> None:
    control = Control(
        ratios={},
        pooled={"solo": Pooled(ratio=1.02, low=solo[0], high=solo[1], sessions=9)},
        specscore=SpecScoreInterval(specscore=1.01, low=all_of_them[0], high=all_of_them[1]),
    )
    told = control_notes(control)
    assert [t.startswith(n) for t, n in zip(told, notes, strict=True)] == [True] * len(notes)
    assert control_notes(None) == []


def test_acceptance_is_one_and_the_accepted_drafts_of_all_passes(make: Any) -> None:
    counters = ({"drafts": 100, "accepted": 200}, {"drafts": 300, "accepted": 200}, None)
    played = [
        make.one_pass("candidate", i, [make.play("a")], counters=c) for i, c in enumerate(counters)
    ]
    record = evaluate(make.run([*make.passes("stock", [100] * 3), *played]))
    assert record.acceptance == {"solo": 1 + 400 / 400}


def test_an_engine_that_counts_no_steps_is_told_by_its_gauge_and_the_record_says_so(
    make: Any,
) -> None:
    looks = {"mean": 1.0, "max": 1.0, "samples": 10.0}
    played = [
        make.one_pass("candidate", 0, [make.play("a")], in_flight={**looks, **gauge}, counters={})
        for gauge in ({"accept_length_mean": 2.0}, {"accept_length_mean": 3.0}, {})
    ]
    record = evaluate(make.run([*make.passes("stock", [100] * 3), *played]))
    assert record.acceptance == {"solo": 2.5}
    arms = (record.workloads or {})["solo"].arms
    assert (arms["candidate"].acceptance_source, arms["stock"].acceptance_source) == ("gauge", None)
    assert sum("mean of its own gauge over time" in note for note in record.notes or ()) == 1


def test_a_cache_that_could_not_be_emptied_says_what_the_engine_needs(make: Any) -> None:
    kept = {"salt": None, "cache_reset": False}
    played = [make.one_pass(arm, 0, [make.play("a")], **kept) for arm in ("stock", "candidate")]
    engines = (
        {"event": "engine", "arm": "stock", "abilities": {"family": "sglang"}},
        {"event": "engine", "arm": "candidate", "abilities": {"family": "llamacpp"}},
    )
    notes = evaluate(make.run(played, engines=engines)).notes or []
    said = [note for note in notes if "neither emptied nor salted" in note]
    assert said[0].endswith("between passes: /flush_cache needs no request in flight")
    assert said[1].endswith("between passes")


def test_accepted_positions_are_shares_of_the_verify_steps(make: Any) -> None:
    counters = {"drafts": 10.0, "accepted": 9.0, "accepted_at_0": 6.0, "accepted_at_1": 3.0}
    played = [make.one_pass("candidate", i, [make.play("a")], counters=counters) for i in range(2)]
    record = evaluate(make.run([*make.passes("stock", [100] * 2), *played]))
    arms = (record.workloads or {})["solo"].arms
    assert arms["candidate"].accepted_at == [0.6, 0.3]
    assert arms["candidate"].acceptance_source == "counters"
    assert arms["stock"].accepted_at is None


@pytest.mark.parametrize("counters", [{"drafts": 5.0}, {"drafts": 0, "accepted": 0}, {}, None])
def test_acceptance_is_unknown_where_a_counter_lacks(make: Any, counters: Any) -> None:
    """An engine that counts drafts and not what was accepted made a KeyError."""
    played = [make.one_pass("candidate", 0, [make.play("a")], counters=counters)]
    record = evaluate(make.run([*make.passes("stock", [100]), *played]))
    assert record.acceptance == {"solo": None}


def test_each_arms_figures_are_sums_over_its_measured_sessions(make: Any) -> None:
    turns = (make.turn(10, finish_reason="length", resends=1), make.failed_turn(sent_s=1))
    plays = [
        make.play("a", 100, 2.0),
        make.play("b", turns=turns, outcome="failed"),
        make.play("f", 7, 1.0, measured=False),
    ]
    played = [make.one_pass("candidate", 0, plays, close_s=2.0), *make.passes("stock", [100])]
    record = evaluate(make.run(played))
    assert record.workloads is not None
    arm = record.workloads["solo"].arms["candidate"]
    assert (arm.sessions, arm.turns, arm.failed_turns, arm.errors) == (2, 3, 1, {"http": 1})
    assert (arm.output_tokens, arm.lane_seconds, arm.tokens_per_s_per_lane) == (110, 2.0, 50.0)
    assert (arm.cut_at_max_tokens, arm.resends, arm.count_sources) == (1, 1, {"ids": 2})
    # All lanes, fillers included, while the window of 2 s was open.
    assert arm.tokens_per_s == pytest.approx((100 + 10 + 7) / 2)


def test_tokens_outside_the_measured_window_are_not_its_throughput(make: Any) -> None:
    turn = make.turn(10, arrivals=((0.5, 4, 16), (1.5, 6, 24)))
    one = make.one_pass("candidate", 0, [make.play("a", turns=(turn,))], open_s=1.0, close_s=2.0)
    record = evaluate(make.run([one, *make.passes("stock", [100])]))
    assert record.workloads is not None
    assert record.workloads["solo"].arms["candidate"].tokens_per_s == pytest.approx(6)


def test_the_lanes_that_the_server_saw_are_a_mean_over_looks(make: Any) -> None:
    seen = ({"mean": 1.0, "max": 1, "samples": 30.0}, {"mean": 0.5, "max": 1, "samples": 10.0})
    played = [make.one_pass("stock", i, [make.play("a")], in_flight=s) for i, s in enumerate(seen)]
    record = evaluate(make.run(played, complete=False))
    assert record.workloads is not None
    assert record.workloads["solo"].lanes_seen == {"stock": 0.875, "candidate": None}


def test_counts_that_nobody_could_check_are_told(make: Any) -> None:
    plays = [make.play("a", turns=(make.turn(9, source="usage"), make.turn(None)))]
    played = [make.one_pass("candidate", 0, plays, cache_reset=False, salt=None)]
    notes = evaluate(make.run([*make.passes("stock", [100]), *played])).notes or []
    assert any(
        "1 of candidate's 2 replies are counted by what the engine reports" in n for n in notes
    )
    assert any("1 of candidate's 2 replies could not be counted" in n for n in notes)
    assert any("candidate's prefix cache could be neither" in n for n in notes)
    assert not any("stock" in n for n in notes)


def test_the_record_of_a_bare_endpoint_can_be_written_and_read_back(
    make: Any, passes: list[Any], tmp_path: Path
) -> None:
    """Figures that are unknown were left out, and the record then refused."""
    bare = {"reported_tokens": None, "prompt_tokens": None, "cached_tokens": None}
    plays = [make.play(f"s{i}", turns=(make.turn(9, **bare),)) for i in range(4)]
    played = [make.one_pass(arm, 0, plays, in_flight=None) for arm in ("stock", "candidate")]
    record = evaluate(make.run(played, memory=(), texts=()))
    path = tmp_path / "evaluation.json"
    path.write_bytes(record.to_bytes())
    assert read_evaluation(path) == record


ORDER = (
    *("memory", "fidelity", "likelihood", "argmax", "agreement", "lengths", "support", "ranks"),
    *("excess", "integrity"),
)


def test_where_nothing_is_scored_the_text_test_takes_the_likelihood_gates_place(
    make: Any, passes: list[Any]
) -> None:
    why = {"likelihood": "the endpoint gives no log-probabilities"}
    gates = evaluate(make.run(passes, unavailable=why)).gates or {}
    assert tuple(gates) == (*ORDER, "text_test")
    for name in ("likelihood", "argmax", "support", "ranks"):
        assert (gates[name].verdict, gates[name].sentence) == ("n/a", why["likelihood"])
    gates = evaluate(make.run(passes)).gates or {}
    assert gates["likelihood"].sentence == "no reply was scored"


SCORED_LIMITS = {
    "length_margin": 0.1,
    "excess_likelihood_bound": 0.2,
    "excess_argmax_bound": 0.1,
    "ends_bound": 0.02,
    "support_bound": 0.01,
    "rank_p": 0.001,
    "excess_p": 0.001,
}


def scored() -> Any:
    rng = np.random.default_rng(3)
    return tuple(r for arm in ARMS for r in replies(rng, arm))


def test_scored_replies_fill_the_seeds_keys_and_the_excess_figures(
    make: Any, passes: list[Any], tmp_path: Path
) -> None:
    record = evaluate(make.run(passes, limits=SCORED_LIMITS, scored=scored()))
    assert tuple(record.gates or {}) == ORDER
    for name in ("likelihood", "argmax", "lengths", "support", "ranks", "excess", "integrity"):
        assert (record.gates or {})[name].verdict == "pass", name
    plain, excess = record.likelihood, record.excess_likelihood
    assert plain is not None
    assert excess is not None
    assert excess.se < plain.se
    assert record.excess_argmax is not None
    assert record.excess_end is not None
    assert record.looks is None
    path = tmp_path / "evaluation.json"
    path.write_bytes(record.to_bytes())
    assert read_evaluation(path) == record


def test_a_look_in_the_log_widens_the_intervals(make: Any, passes: list[Any]) -> None:
    once = evaluate(make.run(passes, limits=SCORED_LIMITS, scored=scored()))
    notes = (look_note(1, "the planned passes are played"), look_note(2, "one more of solo"))
    again = evaluate(make.run(passes, limits=SCORED_LIMITS, scored=scored(), notes=notes))
    assert again.looks is not None
    assert (again.looks.look, again.looks.level) == (2, level_at(2))
    a, b = once.excess_likelihood, again.excess_likelihood
    assert a is not None
    assert b is not None
    assert b.high - b.low > 1.2 * (a.high - a.low)


def test_a_limited_gate_that_cannot_be_had_is_not_passed() -> None:
    refused = Gate(verdict="n/a", sentence="the endpoint gives no prompt log-probabilities")
    limits = Limits(fidelity_ceiling=0.01)
    gates = asked_for({"fidelity": refused, "ranks": refused}, limits)
    assert gates["fidelity"].asked
    assert not gates["ranks"].asked  # the task sets no limit for it
    verdict, reason = verdict_of(gates, [], "decide")
    assert verdict == "inconclusive"
    assert reason is not None
    assert "gives no prompt log-probabilities" in reason
    assert verdict_of(gates, [], "reject") == ("passed", None)


def test_a_text_test_that_decides_stands_for_the_gates_of_scores() -> None:
    refused = Gate(verdict="n/a", sentence="no token ids")
    limits = Limits(excess_likelihood_bound=0.01, text_p=0.001)
    text = Gate(verdict="pass", sentence="alike")
    assert not asked_for({"likelihood": refused, "text_test": text}, limits)["likelihood"].asked
    assert asked_for({"likelihood": refused}, limits)["likelihood"].asked
