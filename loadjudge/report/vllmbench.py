"""Results as ``vllm bench serve`` writes them, so that plots made for its files work. Pure.

Keys and definitions are that tool's, which are not always ours: TPOT = (E2EL − TTFT) / (output
tokens − 1), an inter-token latency is the time between two chunks, however many tokens they bring,
standard deviations are of the population. ``duration`` is the time in which all lanes together
served the turns that are counted. Source: vllm/benchmarks/serve.py, 0.32.
"""

import datetime
import itertools
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from loadjudge.record.values import Arm, PassRecord, RunRecord, TurnRecord
from loadjudge.score.throughput import flow_of, tokens_of
from loadjudge.sweep.slo import good_turn

FORMAT = "vllm-bench"
Results = dict[tuple[Arm, str], dict[str, Any]]


def bench_results(run: RunRecord) -> Results:
    """A result for each arm at each workload, or point of a sweep."""
    results: Results = {}
    arms: tuple[Arm, ...] = ("stock", "candidate")
    for workload in run.workloads:
        for arm in arms:
            passes = run.of(workload, arm)
            if passes:
                results[arm, workload] = _result(run, arm, passes)
    return results


def paths_of(results: Results, path: Path) -> dict[tuple[Arm, str], Path]:
    """Where each goes: ``FILE`` itself if it is the only one, else with arm and workload in its
    name."""
    if len(results) == 1:
        return dict.fromkeys(results, path)
    return {
        (arm, workload): path.with_name(f"{path.stem}-{arm}-{workload}{path.suffix}")
        for arm, workload in results
    }


def _result(run: RunRecord, arm: Arm, passes: Sequence[PassRecord]) -> dict[str, Any]:
    header = run.header
    flow = flow_of(passes)
    turns = flow.turns
    failed = [t for one in passes for p in one.measured for t in p.turns if t.error is not None]
    inputs = [t.prompt_tokens or 0 for t in turns]
    outputs = [tokens_of(t) or 0 for t in turns]
    duration = flow.seconds
    rate = passes[0].rate
    model = _model(run, arm)
    limits = header.get("goodput")
    started = datetime.datetime.fromisoformat(header["started"])
    samples = _samples(turns)
    return {
        "date": started.strftime("%Y%m%d-%H%M%S"),
        "endpoint_type": "openai-chat",
        "backend": "openai-chat",
        "label": header["engines"][arm]["name"],
        "model_id": model,
        "tokenizer_id": model,
        "num_prompts": len(turns) + len(failed),
        "request_rate": "inf" if rate is None else rate,
        "burstiness": 1.0,
        "max_concurrency": passes[0].lanes if rate is None else None,
        "duration": duration,
        "completed": len(turns),
        "failed": len(failed),
        "total_input_tokens": sum(inputs),
        "total_output_tokens": sum(outputs),
        "request_throughput": len(turns) / duration if duration else 0.0,
        "request_goodput": sum(good_turn(t, limits) for t in turns) / duration
        if limits and duration
        else None,
        "output_throughput": sum(outputs) / duration if duration else 0.0,
        "total_token_throughput": (sum(inputs) + sum(outputs)) / duration if duration else 0.0,
        **{k: v for name, values in samples.items() for k, v in _statistics(name, values).items()},
        "max_output_tokens_per_s": max(map(_peak_tokens, passes)),
        "max_concurrent_requests": max(map(_peak_turns, passes)),
        "input_lens": inputs,
        "output_lens": outputs,
        "ttfts": samples["ttft"],
        "itls": [_gaps(t) for t in turns],
        "latencies": samples["e2el"],
        "start_times": [t.sent_s for t in turns],
        "queue_times": [t.sent_s - t.scheduled_s for t in turns],
        "generated_texts": [t.content for t in turns],
        "errors": [""] * len(turns),
        **_speculation(passes),
    }


def _model(run: RunRecord, arm: Arm) -> str | None:
    """The name that the endpoint serves its model by; None where the log doesn't say."""
    said = (e["abilities"]["model"] for e in run.engines if e["arm"] == arm and "abilities" in e)
    return next(said, None)


def _samples(turns: Sequence[TurnRecord]) -> dict[str, list[float]]:
    """Seconds. A turn without a token has no times, and stands with zeros as in that tool."""
    ttft = [(t.first_s or t.sent_s) - t.sent_s for t in turns]
    e2el = [(t.last_s or t.sent_s) - t.sent_s for t in turns]
    tpot = [
        (total - first) / (tokens - 1)
        for t, first, total in zip(turns, ttft, e2el, strict=True)
        if (tokens := tokens_of(t) or 0) > 1
    ]
    return {"ttft": ttft, "tpot": tpot, "itl": [g for t in turns for g in _gaps(t)], "e2el": e2el}


def _gaps(turn: TurnRecord) -> list[float]:
    times = [t for t, _, _ in turn.arrivals]
    return [now - before for before, now in itertools.pairwise(times)]


def _statistics(name: str, seconds: Sequence[float]) -> dict[str, float]:
    ms = 1e3 * np.asarray(seconds or [0.0])
    return {
        f"mean_{name}_ms": float(ms.mean()),
        f"median_{name}_ms": float(np.median(ms)),
        f"std_{name}_ms": float(ms.std()),
        f"p99_{name}_ms": float(np.percentile(ms, 99)),
    }


def _peak_tokens(one: PassRecord) -> float:
    """Most output tokens in a second of the measured window, by the clock's whole seconds."""
    seconds = np.zeros(max(math.ceil(one.close_s - one.open_s), 1))
    for play in one.plays:
        for turn in play.turns:
            tokens, characters = tokens_of(turn) or 0, sum(c for _, _, c in turn.arrivals)
            for time, n, c in turn.arrivals:
                place = math.floor(time - one.open_s)
                if 0 <= place < len(seconds):
                    seconds[place] += tokens * c / max(characters, 1) if n is None else n
    return float(seconds.max())


def _peak_turns(one: PassRecord) -> int:
    """Most turns in flight at once, between sending and the last token."""
    steps = [
        step
        for play in one.plays
        for t in play.turns
        if t.error is None and t.last_s is not None
        for step in ((t.sent_s, 1), (t.last_s, -1))
    ]
    now = peak = 0
    for _, step in sorted(steps):
        now += step
        peak = max(peak, now)
    return peak


def _speculation(passes: Sequence[PassRecord]) -> dict[str, float]:
    """Counters of the engine over the passes; nothing where it has none or does not draft."""
    counted = [p.counters for p in passes if p.counters and {"drafts", "accepted"} <= {*p.counters}]
    drafts = sum(c["drafts"] for c in counted)
    if not drafts:
        return {}
    accepted = sum(c["accepted"] for c in counted)
    return {
        "spec_decode_acceptance_length": 1 + accepted / drafts,
        "spec_decode_num_drafts": int(drafts),
        "spec_decode_accepted_tokens": int(accepted),
    }
