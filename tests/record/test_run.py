"""A run read back from its log."""

import gc
from pathlib import Path
from typing import Any

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.record.codec import play_event
from loadjudge.record.log import RunLog
from loadjudge.record.run import read_run
from loadjudge.record.values import MemoryPeak

RUN = {"event": "run", "seed": 1}
LAG = {"n": 1, "mean": 0.0, "p50": 0.0, "p99": 0.0, "max": 0.0}


def written(directory: Path, *events: dict[str, Any]) -> Path:
    with RunLog(directory) as log:
        for event in events:
            log.append(event)
    return directory


def started(attempt: int = 0, slot: int = 0, **changes: Any) -> dict[str, Any]:
    values = {"workload": "solo", "arm": "stock", "number": 0, "lanes": 1, "salt": "s"}
    return {
        "event": "pass",
        "attempt": attempt,
        "slot": slot,
        "cache_reset": True,
        **values,
        **changes,
    }


def played(play: Any, attempt: int = 0) -> dict[str, Any]:
    return {"event": "play", "attempt": attempt, **play_event(play)}


def ended(counts: dict[str, Any] | None, attempt: int = 0) -> dict[str, Any]:
    values = {"open_s": 0.5, "close_s": 2.0, "lag": LAG, "cpu": 0.1}
    return {
        "event": "pass_end",
        "attempt": attempt,
        "in_flight": None,
        "counters": None,
        "counts": counts,
        **values,
    }


def test_a_pass_comes_back_with_the_counts_of_its_end(make: Any, tmp_path: Path) -> None:
    filler = make.play("f", 7, measured=False, play="filler-0")
    events = (started(), played(make.play("a", 10)), played(filler), ended({"a#0": [[9, "ids"]]}))
    run = read_run(written(tmp_path, RUN, *events))
    [one] = run.passes
    assert (one.workload, one.arm, one.lanes, one.salt, one.open_s) == (
        "solo",
        "stock",
        1,
        "s",
        0.5,
    )
    assert [p.tokens for p in one.measured] == [9]
    assert [p.play for p in one.plays] == ["a#0", "filler-0"]
    assert run.header == RUN
    assert not run.complete


def test_an_unfinished_pass_does_not_count(make: Any, tmp_path: Path) -> None:
    events = (
        started(),
        played(make.play("a")),
        ended({"a#0": [[9, "ids"]]}),
        started(1, slot=1, arm="candidate"),
        played(make.play("a"), 1),
    )
    assert [p.slot for p in read_run(written(tmp_path, RUN, *events)).passes] == [0]


def test_a_resumed_pass_is_read_from_its_second_attempt(make: Any, tmp_path: Path) -> None:
    events = (
        started(),
        played(make.play("a")),
        {"event": "interrupted"},
        {"event": "resumed", "passes_done": 0},
        started(1),
        played(make.play("b"), 1),
        ended({"b#0": [[3, "ids"]]}, 1),
        {"event": "end"},
    )
    run = read_run(written(tmp_path, RUN, *events))
    assert [[p.session for p in one.plays] for one in run.passes] == [["b"]]
    assert run.complete


@pytest.mark.parametrize("again", [0, 1])
def test_a_pass_that_ends_twice_is_refused(make: Any, tmp_path: Path, again: int) -> None:
    """The same attempt's second end was a KeyError."""
    events = [started(), played(make.play("a")), ended({})]
    events += [started(1), played(make.play("a"), 1)] * again + [ended({}, again)]
    with pytest.raises(JudgeError, match="pass 0 of solo ends twice") as caught:
        read_run(written(tmp_path, RUN, *events))
    assert caught.value.status == Status.RUN


def test_memory_is_the_most_that_any_event_tells(tmp_path: Path) -> None:
    peaks = [{"event": "memory", "arm": "stock", "peak_mib": m, "kind": "rss"} for m in (5, 9, 7)]
    assert read_run(written(tmp_path, RUN, *peaks)).memory == (MemoryPeak("stock", 9, "rss"),)


def test_once_an_engine_was_seen_on_a_device_that_memory_counts(tmp_path: Path) -> None:
    """A resident figure of the first seconds, before the device was looked at, stood beside it."""
    kinds = (("rss", 5000), ("device", 300), ("device", 200), ("rss", 6000))
    peaks = [{"event": "memory", "arm": "stock", "peak_mib": m, "kind": k} for k, m in kinds]
    assert read_run(written(tmp_path, RUN, *peaks)).memory == (MemoryPeak("stock", 300, "device"),)


def test_a_pass_that_was_counted_later_has_its_counts(make: Any, tmp_path: Path) -> None:
    later = {"event": "counts", "attempt": 0, "counts": {"a#0": [[9, "ids"]]}}
    run = read_run(written(tmp_path, RUN, started(), played(make.play("a")), ended(None), later))
    assert [p.tokens for p in run.passes[0].measured] == [9]
    assert run.uncounted == {}


def test_a_pass_that_nobody_counted_yet_is_known_with_its_plays(make: Any, tmp_path: Path) -> None:
    filler = played(make.play("f", measured=False, play="filler-0"))
    run = read_run(written(tmp_path, RUN, started(), played(make.play("a")), filler, ended(None)))
    assert [t.tokens for p in run.passes[0].measured for t in p.turns] == [None]
    assert {a: [p.play for p in plays] for a, plays in run.uncounted.items()} == {0: ["a#0"]}


def test_arms_whose_evidence_is_all_there_are_known(tmp_path: Path) -> None:
    run = read_run(written(tmp_path, RUN, {"event": "evidence", "arm": "stock"}))
    assert run.evidence == {"stock"}


def test_a_died_run_that_is_resumed_is_not_dead(tmp_path: Path) -> None:
    died = {"event": "died", "sentence": "boom"}
    assert read_run(written(tmp_path, RUN, died)).died == died
    assert read_run(written(tmp_path, {"event": "resumed"})).died is None


def test_evidence_that_was_read_twice_counts_once(tmp_path: Path) -> None:
    text = {"event": "text", "arm": "stock", "id": "t", "token_ids": [1, 2], "logprobs": [-1.0]}
    reply = {
        "event": "greedy",
        "arm": "stock",
        "round": 0,
        "session": "a",
        "content": "x",
        "token_ids": None,
    }
    note = {"event": "note", "text": "hm"}
    run = read_run(
        written(tmp_path, RUN, text, reply, note, {**text, "logprobs": [-2.0]}, reply, note)
    )
    assert [t.logprobs for t in run.texts] == [(-2.0,)]
    assert [(g.session, g.token_ids) for g in run.greedy] == [("a", None)]
    assert run.notes == ("hm",)


def test_what_else_a_log_tells_is_kept(tmp_path: Path) -> None:
    lanes = {"event": "lanes", "workload": "busy", "lanes": 7}
    engine = {"event": "engine", "arm": "stock", "state": "ready"}
    lacking = {"event": "unavailable", "what": "fidelity", "why": "no"}
    run = read_run(written(tmp_path, RUN, lanes, engine, lacking))
    assert (run.lanes, run.engines, run.unavailable) == (
        {"busy": lanes},
        (engine,),
        {"fidelity": "no"},
    )


@pytest.mark.parametrize(
    ("events", "why"),
    [
        ([], "holds no run yet"),
        ([RUN, {"event": "surprise"}], "unknown event 'surprise'"),
        ([RUN, {"event": "play", "attempt": 3}], "not as a judge writes it: KeyError: 3"),
        ([RUN, {"event": "text", "arm": "stock"}], "not as a judge writes it: KeyError: 'id'"),
    ],
)
def test_a_log_that_no_judge_wrote_is_refused_in_a_sentence(
    tmp_path: Path, events: list[dict[str, Any]], why: str
) -> None:
    """A missing key was a traceback."""
    with pytest.raises(JudgeError, match=why):
        read_run(written(tmp_path, *events))


def test_reading_leaves_the_garbage_collector_as_it_was(tmp_path: Path) -> None:
    directory = written(tmp_path, RUN)
    read_run(directory)
    assert gc.isenabled()
    gc.disable()
    try:
        read_run(directory)
        assert not gc.isenabled()
    finally:
        gc.enable()
