"""What the page's tables say, as plain rows of text. Pure functions of the record and the log."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from loadjudge.record.evaluation import ArmFigures, Evaluation, Latency
from loadjudge.record.values import ARMS, PassRecord, RunRecord
from loadjudge.report import formats
from loadjudge.report.summary import Row

LATENCIES = {
    "ttft": "first token (TTFT)",
    "ttfot": "first content token (TTFOT)",
    "itl": "between tokens (ITL)",
    "tpot": "per output token (TPOT)",
    "e2el": "whole turn (E2EL)",
    "queue": "queued in the client",
}


Cell = tuple[str, str]  # the figure, and what has to be said beside it


@dataclass(frozen=True, slots=True)
class LatencyRow:
    """One latency of one workload, both arms; ``sooner`` is stock's median over candidate's."""

    title: str
    arms: tuple[tuple[str, Latency], ...]
    sooner: float | None


@dataclass(frozen=True, slots=True)
class Account:
    """One line of a workload's accounts, by arm; ``alarm`` where a figure but 0 isn't clean."""

    title: str
    cells: tuple[Cell, ...]
    alarm: bool = False


@dataclass(frozen=True, slots=True)
class PassRow:
    """One pass as it was played."""

    record: PassRecord
    turns: int
    failed: int
    tokens: int
    cache: str
    counters: str


def latency_rows(row: Row) -> tuple[LatencyRow, ...]:
    """The workload's latencies in the design's order, then any that it doesn't name."""
    names = [n for n in LATENCIES if any(n in a.latencies for a in row.arms.values())]
    names += [n for a in row.arms.values() for n in a.latencies if n not in LATENCIES]
    made: list[LatencyRow] = []
    for name in dict.fromkeys(names):
        arms = tuple(
            (arm, latency) for arm in ARMS if (latency := row.latency(arm, name)) is not None
        )
        medians = {arm: latency.p50.value for arm, latency in arms}
        sooner = None
        if len(medians) == 2 and medians["candidate"] > 0:
            sooner = medians["stock"] / medians["candidate"]
        made.append(LatencyRow(LATENCIES.get(name, name), arms, sooner))
    return tuple(made)


def accounts(row: Row, evaluation: Evaluation) -> tuple[Account, ...]:
    """Tokens, errors and rates of a workload, the columns in the order of ``ARMS``."""
    arms = [row.arms.get(arm) for arm in ARMS]
    figures = (evaluation.workloads or {}).get(row.workload)
    seen = figures.lanes_seen if figures else {}

    def counts(title: str, name: str) -> Account:
        values = [getattr(a, name) if a else None for a in arms]
        return Account(title, tuple((formats.count(v), "") for v in values))

    def decimals(title: str, name: str) -> Account:
        values = [getattr(a, name) if a else None for a in arms]
        return Account(title, tuple((formats.decimal(v, 1), "") for v in values))

    return (
        decimals("output tokens/s, all lanes", "tokens_per_s"),
        decimals("output tokens/s per lane", "tokens_per_s_per_lane"),
        counts("passes", "passes"),
        counts("measured sessions", "sessions"),
        counts("turns", "turns"),
        Account("failed turns", tuple(map(_failed, arms)), alarm=True),
        counts("output tokens, trusted", "output_tokens"),
        Account("output tokens, as reported", tuple(map(_reported, arms))),
        Account("counted by", tuple(map(_sources, arms))),
        counts("prompt tokens", "prompt_tokens"),
        Account("of these from the cache", tuple(map(_cached, arms))),
        counts("cut at max_tokens", "cut_at_max_tokens"),
        counts("tool results sent as user messages", "converted_results"),
        counts("calls whose arguments were repaired", "repaired_calls"),
        counts("requests sent again", "resends"),
        decimals("lane time, s", "lane_seconds"),
        Account("verify steps that accept at each position", tuple(map(_accepted_at, arms))),
        Account(
            "mean in flight, as the server saw it",
            tuple((formats.decimal(seen.get(arm)), "") for arm in ARMS),
        ),
        Account("KV cache in use, mean", tuple(map(_kv_use, arms))),
        counts("requests waiting at most", "waiting_max"),
        counts("preemptions", "preemptions"),
    )


def _failed(arm: ArmFigures | None) -> Cell:
    if arm is None:
        return formats.UNKNOWN, ""
    kinds = ", ".join(f"{kind} {formats.count(n)}" for kind, n in arm.errors.items())
    return formats.count(arm.failed_turns), kinds


def _reported(arm: ArmFigures | None) -> Cell:
    if arm is None or arm.reported_tokens is None:
        return formats.UNKNOWN, ""
    difference = arm.reported_tokens - arm.output_tokens
    beside = f"{difference:+,d}".replace("-", "−") if difference else ""
    return formats.count(arm.reported_tokens), beside


def _cached(arm: ArmFigures | None) -> Cell:
    if arm is None or arm.cached_tokens is None:
        return formats.UNKNOWN, ""
    of = formats.share(arm.cached_tokens / arm.prompt_tokens) if arm.prompt_tokens else ""
    return formats.count(arm.cached_tokens), of


def _kv_use(arm: ArmFigures | None) -> Cell:
    most = arm.kv_usage_max if arm else None
    beside = "" if most is None else f"at most {formats.share(most)}"
    return formats.share(arm.kv_usage_mean if arm else None), beside


def _accepted_at(arm: ArmFigures | None) -> Cell:
    if arm is None or arm.accepted_at is None:
        return formats.UNKNOWN, ""
    return ", ".join(formats.share(share) for share in arm.accepted_at), ""


def _sources(arm: ArmFigures | None) -> Cell:
    if arm is None or not arm.count_sources:
        return formats.UNKNOWN, ""
    if len(arm.count_sources) == 1:
        return next(iter(arm.count_sources)), ""
    turns = [f"{source} {formats.count(n)}" for source, n in arm.count_sources.items()]
    return "several", ", ".join(turns)


def pass_rows(run: RunRecord) -> tuple[PassRow, ...]:
    """All passes in the order of play."""
    return tuple(_pass_row(record) for record in run.passes)


def _pass_row(record: PassRecord) -> PassRow:
    turns = [t for p in record.measured for t in p.turns]
    cache = ["reset"] if record.cache_reset else []
    cache += [f"salt {record.salt}"] if record.salt is not None else []
    counters = record.counters
    return PassRow(
        record=record,
        turns=len(turns),
        failed=sum(t.error is not None for t in turns),
        tokens=sum(p.tokens for p in record.measured),
        cache=", ".join(cache) or "kept",
        counters=formats.UNKNOWN
        if counters is None
        else ", ".join(f"{name} {value:,.6g}" for name, value in counters.items()) or "none",
    )


def not_recorded(
    evaluation: Evaluation, run: RunRecord | None, metadata: Mapping[str, Any]
) -> tuple[str, ...]:
    """What this record lacks of what a full one has, in words."""
    lacks = {
        "the names and the configurations of the engines": not metadata.get("engines"),
        "intervals of the speedups": not evaluation.pooled,
        "the A/A control": evaluation.control is None,
        "latencies, token counts and errors of the arms": not evaluation.workloads,
        "stock's tokens per verify step": not evaluation.workloads,
        "which rule gave the verdict": evaluation.rule is None,
        "the machine, the versions and the seeds": not metadata,
        "the log of the run, which the plots over time are drawn from": run is None
        or not run.passes,
    }
    return tuple(what for what, missing in lacks.items() if missing)
