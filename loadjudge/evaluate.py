"""From what a run recorded to its evaluation record: scores and gates joined. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from loadjudge.gates.checks import gates_of
from loadjudge.gates.sequential import look_of
from loadjudge.load.fill import filled, mean_of, most_of
from loadjudge.load.guard import lag_share, median_tpot, noisy, reasons
from loadjudge.record.evaluation import (
    SCHEMA_VERSION,
    AcceptanceSource,
    ArmFigures,
    Control,
    Evaluation,
    Gate,
    Limits,
    RunVerdict,
    WorkloadFigures,
)
from loadjudge.record.values import ARMS, Arm, PassRecord, RunRecord
from loadjudge.score.latency import latencies
from loadjudge.score.speculation import tokens_per_step
from loadjudge.score.speed import control, pair, speed
from loadjudge.servers.families import FAMILIES


def evaluate(run: RunRecord) -> Evaluation:
    """The whole record of a run, as far as it was played.

    A run that isn't complete, or can't be trusted, is invalid and has no score.
    """
    seed = run.header["seed"]
    limits = Limits.model_validate(run.header["task"]["limits"])
    rule = run.header["task"]["rule"]
    paired = {
        w: pair(run.of(w, "candidate"), run.of(w, "stock"))
        for w in run.workloads
        if run.of(w, "candidate") and run.of(w, "stock")
    }
    playable = {w: p for w, p in paired.items() if p.playable}
    figures = speed(playable, seed) if playable else None
    against_itself = control({w: run.of(w, "stock") for w in playable}, seed)
    checked = gates_of(run, limits, seed, look_of(run))
    gates = checked.gates
    invalid = reasons(run.passes)
    if not run.complete:
        why = run.died["sentence"].splitlines()[0] if run.died else "it was interrupted"
        invalid.insert(0, f"the run is not complete: {why}")
    elif len(playable) < len(paired):
        invalid.append("a pass has no measured session that both arms finished and that counts")
    verdict, reason = verdict_of(gates, invalid, rule)
    specscore = figures.specscore if figures else None
    score = None if invalid or specscore is None else 0.0 if verdict == "failed" else specscore
    return Evaluation(
        ratios=figures.ratios if figures else {},
        specscore=specscore,
        acceptance={w: _acceptance(run.of(w, "candidate"))[0] for w in run.workloads},
        limits=limits,
        reason=reason,
        score=score,
        schema_version=SCHEMA_VERSION,
        verdict=verdict,
        rule=rule,
        gates=gates,
        pooled=figures.pooled if figures else None,
        specscore_interval=figures.interval if figures else None,
        control=against_itself,
        workloads={w: _workload(run, w) for w in run.workloads},
        invalid=invalid,
        notes=run_notes(run) + control_notes(against_itself),
        unavailable=run.unavailable,
        run={**_facts(run.header), "lanes": run.lanes, "engine_events": list(run.engines)},
        **checked.figures,
    )


def verdict_of(
    gates: Mapping[str, Gate], invalid: Sequence[str], rule: str
) -> tuple[RunVerdict, str | None]:
    """The run's verdict and its reason.

    Under the rule ``reject`` a gate that is undecided does not stop a run, as on the seed
    arena's pages; under ``decide`` it does, and the run is inconclusive. So it does where a gate
    that the task limits can't be had.
    """
    if invalid:
        return "invalid", invalid[0]
    for verdict, outcome in (("fail", "failed"), ("inconclusive", "inconclusive")):
        for name, gate in gates.items():
            open_too = verdict == "inconclusive" and gate.verdict == "n/a" and gate.asked
            if (gate.verdict == verdict or open_too) and (verdict == "fail" or rule == "decide"):
                return ("failed" if outcome == "failed" else "inconclusive"), (
                    f"{name}: {gate.sentence}"
                )
    return "passed", None


def _acceptance(passes: Sequence[PassRecord]) -> tuple[float | None, AcceptanceSource | None]:
    """Tokens per verify step, 1 + Δaccepted/Δdrafts, and where it is from.

    Where an engine counts no steps its own gauge must do, averaged over the looks of the windows:
    over time, not over tokens, and of the candidate's own making. None where it has neither.
    """
    counted = tokens_per_step(p.counters for p in passes)
    if counted is not None:
        return counted, "counters"
    length = mean_of(passes, "accept_length_mean")
    return length, None if length is None else "gauge"


def _accepted_at(passes: Sequence[PassRecord]) -> list[float] | None:
    """Share of the verify steps that accepted a token at each draft position."""
    told = [p.counters for p in passes if p.counters and p.counters.get("drafts")]
    shares: list[float] = []
    while told and all(f"accepted_at_{len(shares)}" in c for c in told):
        accepted = sum(c[f"accepted_at_{len(shares)}"] for c in told)
        shares.append(accepted / sum(c["drafts"] for c in told))
    return shares or None


def _workload(run: RunRecord, workload: str) -> WorkloadFigures:
    passes = [p for p in run.passes if p.workload == workload]
    tpots = [t for p in passes if (t := median_tpot(p)) is not None]
    return WorkloadFigures(
        lanes=passes[0].lanes,
        lanes_seen={arm: mean_of(run.of(workload, arm), "mean") for arm in ARMS},
        arms={arm: arm_figures(run.of(workload, arm)) for arm in ARMS if run.of(workload, arm)},
        lag_s=max(p.lag["mean"] for p in passes),
        median_tpot_s=min(tpots, default=0.0),
        lag_share=max((s for p in passes if (s := lag_share(p)) is not None), default=0.0),
        kv=filled(run, workload),
    )


def arm_figures(passes: Sequence[PassRecord]) -> ArmFigures:
    """What one arm did at one load, over all measured sessions of these passes."""
    plays = [p for one in passes for p in one.measured]
    turns = [t for p in plays for t in p.turns]
    good = [t for t in turns if t.error is None]
    output = sum(t.tokens or 0 for t in good)
    lane_s = sum(p.lane_s for p in plays if p.outcome == "done")
    acceptance, source = _acceptance(passes)
    return ArmFigures(
        passes=len(passes),
        sessions=len(plays),
        turns=len(turns),
        failed_turns=len(turns) - len(good),
        errors=dict(Counter(t.error[0] for t in turns if t.error)),
        output_tokens=output,
        reported_tokens=_sum(t.reported_tokens for t in good),
        prompt_tokens=_sum(t.prompt_tokens for t in good),
        cached_tokens=_sum(t.cached_tokens for t in good),
        count_sources=dict(Counter(t.source or "unknown" for t in good)),
        cut_at_max_tokens=sum(t.finish_reason == "length" for t in good),
        converted_results=sum(t.converted_results for t in good),
        repaired_calls=sum(t.repaired_calls for t in good),
        resends=sum(t.resends for t in turns),
        lane_seconds=lane_s,
        tokens_per_s_per_lane=(
            sum(p.tokens for p in plays if p.outcome == "done") / lane_s if lane_s else 0.0
        ),
        tokens_per_s=_throughput(passes),
        acceptance=acceptance,
        acceptance_source=source,
        accepted_at=_accepted_at(passes),
        kv_usage_mean=mean_of(passes, "kv_usage_mean"),
        kv_usage_max=most_of(passes, "kv_usage_max"),
        waiting_max=most_of(passes, "waiting_max"),
        preemptions=_sum(p.counters.get("preemptions") for p in passes if p.counters),
        latencies=latencies(turns),
    )


def _throughput(passes: Sequence[PassRecord]) -> float:
    """Output tokens per second of all lanes while the measured window was open."""
    tokens = seconds = 0.0
    for one in passes:
        seconds += one.close_s - one.open_s
        for play in one.plays:
            for turn in play.turns:
                total = turn.tokens if turn.tokens is not None else turn.reported_tokens
                characters = sum(c for _, _, c in turn.arrivals)
                inside = sum(c for t, _, c in turn.arrivals if one.open_s <= t <= one.close_s)
                if total and characters:
                    tokens += total * inside / characters
    return tokens / seconds if seconds else 0.0


def _sum(values: Any) -> Any:
    known = [v for v in values if v is not None]
    return sum(known) if known else None


def run_notes(run: RunRecord) -> list[str]:
    """What has to be said of a run whatever its figures: counting, caches, a noisy machine."""
    notes = list(run.notes)
    arms: tuple[Arm, ...] = ARMS
    for arm in arms:
        passes = [p for p in run.passes if p.arm == arm]
        turns = [t for p in passes for play in p.measured for t in play.turns if t.error is None]
        usage = sum(t.source == "usage" for t in turns)
        if usage:
            notes.append(
                f"{usage} of {arm}'s {len(turns)} replies are counted by what the engine reports: "
                f"there was no tokenizer to check it with"
            )
        uncounted = sum(t.source is None for t in turns)
        if uncounted:
            notes.append(f"{uncounted} of {arm}'s {len(turns)} replies could not be counted")
        if passes and not any(p.cache_reset or p.salt for p in passes):
            notes.append(
                f"{arm}'s prefix cache could be neither emptied nor salted between passes"
                f"{_how_to_empty(run, arm)}"
            )
        if _acceptance(passes)[1] == "gauge":
            notes.append(
                f"{arm}'s tokens per verify step are the mean of its own gauge over time: it "
                f"counts no verify steps, so they are not weighed by tokens"
            )
    fills = [fill for w in run.workloads if (fill := filled(run, w))]
    notes += [fill.sentence for fill in fills if not fill.reached]
    late = noisy(run.passes)
    if late:
        worst = max(late, key=lambda p: p.lag["mean"])
        notes.append(
            f"the machine was noisy: in {len(late)} of {len(run.passes)} passes it kept the client "
            f"waiting by more than 5% of the time between reads in the mean (at most "
            f"{worst.lag['mean'] * 1e3:.2f} ms)"
        )
    return notes


def _how_to_empty(run: RunRecord, arm: Arm) -> str:
    """What the engine would have needed, where its family has a call for it."""
    told = [e["abilities"]["family"] for e in run.engines if e["arm"] == arm and "abilities" in e]
    reset = FAMILIES[told[-1]].reset if told else None
    return f": {reset.path} needs {reset.needs}" if reset else ""


def control_notes(control: Control | None) -> list[str]:
    """Where stock differs from itself by more than its interval, the intervals are too short."""
    if control is None:
        return []
    notes = [
        f"stock against itself is {p.ratio:.3f} ({p.low:.3f} to {p.high:.3f}) at {w}: passes "
        f"differed by more than sessions explain, and {w}'s intervals are too short by as much"
        for w, p in control.pooled.items()
        if not p.low <= 1 <= p.high
    ]
    score = control.specscore
    if not notes and not score.low <= 1 <= score.high:
        notes.append(
            f"stock against itself is {score.specscore:.3f} ({score.low:.3f} to {score.high:.3f}) "
            "over all workloads: the machine drifted, or did other work meanwhile"
        )
    return notes


def _facts(header: Mapping[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in header.items() if k != "event"}
