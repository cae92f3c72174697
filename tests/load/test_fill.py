"""Whether lanes filled the KV cache: the record says so, or says that they did not."""

from typing import Any

import pytest

from loadjudge.evaluate import evaluate
from loadjudge.load.fill import filled

LANES = {
    "event": "lanes", "workload": "busy", "lanes": 24, "fill": 0.9,
    "kv_tokens": 10000.0, "mean_live_context": 375.0,
}  # fmt: skip


def run(make: Any, *uses: float | None, waiting: float = 0.0, preempted: float | None = 0.0) -> Any:
    """Passes of both arms; stock's looks saw these uses of its cache, the candidate's 0.5."""
    passes = []
    for number, use in enumerate(uses):
        for arm, its in (("stock", use), ("candidate", 0.5)):
            seen = {"mean": 24.0, "max": 24.0, "samples": 10.0, "waiting_max": waiting}
            if its is not None:
                seen |= {"kv_usage_mean": its, "kv_usage_max": min(1.0, its + 0.05)}
            counters = {} if preempted is None else {"preemptions": preempted}
            plays = [make.play(f"s{i}", 100) for i in range(6)]
            passes.append(
                make.one_pass(
                    arm, number, plays, workload="busy", lanes=24, in_flight=seen, counters=counters
                )
            )
    return make.run(passes, lanes={"busy": LANES})


def test_a_cache_that_was_full_is_confirmed(make: Any) -> None:
    fill = filled(run(make, 0.84, 0.9, preempted=2.0), "busy")
    assert fill is not None
    assert fill.reached is True
    assert fill.use == {"stock": pytest.approx(0.87), "candidate": 0.5}
    assert fill.use_most == {"stock": pytest.approx(0.95), "candidate": 0.55}
    assert fill.preemptions == {"stock": 4.0, "candidate": 4.0}
    assert fill.sentence == (
        "24 lanes of busy held 87% of stock's KV cache in the mean (50% of the candidate's), "
        "4 preemptions"
    )


def test_a_cache_that_was_not_full_is_said_in_the_record(make: Any) -> None:
    played = run(make, 0.6, 0.7)
    record = evaluate(played)
    kv = (record.workloads or {})["busy"].kv
    assert kv is not None
    assert kv.reached is False
    assert kv.sentence in (record.notes or [])
    assert "held 65% of it in the mean, where 90% was meant; 0 preemptions" in kv.sentence
    assert "waited" not in kv.sentence


def test_requests_that_waited_beside_room_are_explained(make: Any) -> None:
    fill = filled(run(make, 0.6, waiting=7.0), "busy")
    assert fill is not None
    assert "up to 7 requests waited all the same" in fill.sentence


def test_what_an_engine_does_not_tell_is_unknown_and_not_reached(make: Any) -> None:
    fill = filled(run(make, None, preempted=None), "busy")
    assert fill is not None
    assert (fill.reached, fill.use["stock"]) == (None, None)
    assert "is unknown: stock does not tell its use" in fill.sentence
    by_preemption = filled(run(make, None, preempted=3.0), "busy")
    assert by_preemption is not None
    assert by_preemption.reached is True


def test_a_workload_with_a_number_of_lanes_has_nothing_to_fill(make: Any) -> None:
    assert filled(make.run([]), "busy") is None
    record = evaluate(make.run([*make.passes("stock", [100]), *make.passes("candidate", [100])]))
    assert (record.workloads or {})["solo"].kv is None
