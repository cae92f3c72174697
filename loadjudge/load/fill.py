"""Whether lanes that were to fill the KV cache did: its use, what waited, what was preempted. Pure.

The number of lanes is an estimate made before. What the engine says of the busy windows is the
proof, and a workload that did not fill the cache is not what its name says.
"""

from collections.abc import Mapping, Sequence

from loadjudge.load.context import SLACK
from loadjudge.record.evaluation import KvFill
from loadjudge.record.values import ARMS, Arm, PassRecord, RunRecord


def filled(run: RunRecord, workload: str) -> KvFill | None:
    """What is known of a workload whose lanes were worked out from the KV cache; else None."""
    event = run.lanes.get(workload)
    if event is None:
        return None
    arms = {arm: run.of(workload, arm) for arm in ARMS}
    use = {arm: mean_of(arms[arm], "kv_usage_mean") for arm in ARMS}
    waiting = {arm: most_of(arms[arm], "waiting_max") for arm in ARMS}
    preempted = {arm: _preempted(arms[arm]) for arm in ARMS}
    stock = use["stock"]
    if stock is not None:
        reached: bool | None = stock >= event["fill"] - SLACK
    else:  # who had to preempt has had it full
        reached = True if preempted["stock"] else None
    return KvFill(
        kv_tokens=event["kv_tokens"],
        mean_live_context=event["mean_live_context"],
        fill=event["fill"],
        use=use,
        use_most={arm: most_of(arms[arm], "kv_usage_max") for arm in ARMS},
        waiting_most=waiting,
        preemptions=preempted,
        reached=reached,
        sentence=_sentence(
            f"{event['lanes']} lanes of {workload}", event["fill"], reached, use, waiting, preempted
        ),
    )


def _sentence(
    lanes: str,
    fill: float,
    reached: bool | None,
    use: Mapping[Arm, float | None],
    waiting: Mapping[Arm, float | None],
    preempted: Mapping[Arm, float | None],
) -> str:
    if reached is None:
        return f"whether {lanes} filled the KV cache is unknown: stock does not tell its use"
    held = {arm: "an unknown share" if x is None else f"{x:.0%}" for arm, x in use.items()}
    count = preempted["stock"]
    tail = "preemptions are unknown" if count is None else f"{count:,.0f} preemptions"
    if reached:
        return (
            f"{lanes} held {held['stock']} of stock's KV cache in the mean "
            f"({held['candidate']} of the candidate's), {tail}"
        )
    said = (
        f"{lanes} did not fill stock's KV cache: they held {held['stock']} of it in the mean, "
        f"where {fill:.0%} was meant; {tail}"
    )
    if waiting["stock"]:
        # With room left in the cache something else, such as max_num_seqs, bounds the batch.
        said += (
            f"; up to {waiting['stock']:,.0f} requests waited all the same, so that something "
            f"else than the cache bounds what runs at once"
        )
    return said


def mean_of(passes: Sequence[PassRecord], figure: str) -> float | None:
    """A figure of the looks at an engine, over the looks of all passes."""
    told = [p.in_flight for p in passes if p.in_flight and figure in p.in_flight]
    samples = sum(x["samples"] for x in told)
    return sum(x[figure] * x["samples"] for x in told) / samples if samples else None


def most_of(passes: Sequence[PassRecord], figure: str) -> float | None:
    told = [p.in_flight[figure] for p in passes if p.in_flight and figure in p.in_flight]
    return max(told, default=None)


def _preempted(passes: Sequence[PassRecord]) -> float | None:
    told = [p.counters["preemptions"] for p in passes if p.counters and "preemptions" in p.counters]
    return sum(told) if told else None
