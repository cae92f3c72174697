"""Lanes that fill the stock engine's KV cache: counted, then corrected by a probe."""

from collections.abc import Sequence
from dataclasses import replace

from loadjudge.load.arm import Arm
from loadjudge.load.context import (
    corrected_lanes,
    expected_context,
    far_off,
    kv_lanes,
    mean_live_context,
    mean_reply,
)
from loadjudge.load.lanes import Progress
from loadjudge.load.passes import PassLoad, play_pass, probe
from loadjudge.load.plan import PassPlan
from loadjudge.record.log import Event
from loadjudge.record.values import PlayRecord

_PROBES = 2


async def lanes_event(
    stock: Arm, workload: str, load: PassLoad, plays: Sequence[PlayRecord], progress: Progress
) -> Event:
    """How many lanes the workload has on both arms, and how that was found.

    The first estimate divides the cache by what a lane's sessions hold. Prompts are counted, for
    they differ by a hundred times; how long replies are is seen in ``plays``, stock's passes so
    far, else in a few sessions. An unrecorded pass with so many lanes, a session each, then shows
    what they really hold, and corrects it; as does a second one, where the first was far off.
    Raises JudgeError where it can't be found.
    """
    table = load.task.workloads[workload]
    kv_tokens = stock.abilities.kv_tokens
    context = None
    if kv_tokens is not None:  # else there is nothing to divide
        context = await _context(stock, load, plays or await probe(stock, load))
    lanes = kv_lanes(kv_tokens, context, table.fill)
    probes: list[Event] = []
    seen: dict[str, float] | None = None
    # Where a pass's prompts would stay in the prefix cache for the measured passes to find, stock
    # would be the faster for it.
    clean = stock.abilities.prefix_reset or stock.abilities.salts
    for number in range(_PROBES if clean else 0):
        tried = await play_pass(
            stock,
            PassPlan(workload, "stock", -1 - number, 0),  # its salt and its seeds are no pass's
            replace(load, sessions=load.sessions[:lanes], lanes=lanes),
            0,
            None,
            lambda _: None,
            progress,
        )
        seen = tried.looks
        probes.append({"lanes": lanes, "seen": seen})
        tried_with, lanes = lanes, corrected_lanes(lanes, table.fill, seen)
        if not far_off(tried_with, lanes):
            break
    return {
        "event": "lanes",
        "workload": workload,
        "lanes": lanes,
        "kv_tokens": kv_tokens,
        "mean_live_context": _held(kv_tokens, seen) or context,
        "counted_context": context,
        "fill": table.fill,
        "probes": probes,
    }


async def _context(stock: Arm, load: PassLoad, plays: Sequence[PlayRecord]) -> float | None:
    """Tokens that a lane holds: counted, else as the probe's turns report them."""
    counted = await expected_context(
        stock.http,
        stock.abilities.model,
        load.sessions,
        min(mean_reply(plays), load.task.max_tokens),
        load.task.history,
    )
    return mean_live_context(plays) if counted is None else counted


def _held(kv_tokens: float | None, seen: dict[str, float] | None) -> float | None:
    """Tokens of the cache that each request in flight held in the probe."""
    if kv_tokens is None or not seen or not seen["mean"] or "kv_usage_mean" not in seen:
        return None
    return kv_tokens * seen["kv_usage_mean"] / seen["mean"]
