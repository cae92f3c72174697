"""From what a sweep recorded to its record. Pure."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from scipy import stats

from loadjudge.evaluate import arm_figures, run_notes
from loadjudge.load.fill import mean_of
from loadjudge.load.guard import reasons
from loadjudge.record.evaluation import Latency, Pooled
from loadjudge.record.values import ARMS, Arm, PassRecord, PlayRecord, RunRecord
from loadjudge.score.bootstrap import LEVEL, Floats, log_ratio, standard_error
from loadjudge.score.clustered import latency_of, share_interval
from loadjudge.score.noise import PassNoise, pass_noise, widened
from loadjudge.score.speed import Plays, counted, pair, plays_of, speed
from loadjudge.score.throughput import Flow, busy_s, flow_of, lane_seconds
from loadjudge.sweep.knee import Power, knee
from loadjudge.sweep.record import ArmPoint, Estimate, PointFigures, SloFigure, SweepRecord
from loadjudge.sweep.search import SearchResult, Seen, combined, level_of, next_lanes
from loadjudge.sweep.slo import TURN_METRICS, Slo, good_turn, look, sample_of

Played = tuple[Floats, Floats]
_PILING = 1.5  # times as many sessions in flight in the second half: they pile up


def sweep_record(run: RunRecord) -> SweepRecord:
    """The whole record of a sweep, as far as it was played."""
    header = run.header
    slos = [Slo.model_validate(s) for s in header["search"]["slos"]] if header["search"] else []
    played = _played(run)
    points = [_point(run, name, slos, played) for name in run.workloads]
    points.sort(key=lambda p: (p.lanes or 0, p.rate or 0.0))
    arms: tuple[Arm, ...] = tuple(a for a in ARMS if a in header["engines"])
    found = {arm: search_step(run, arm) for arm in arms} if slos else {}
    return SweepRecord(
        complete=run.complete,
        died=run.died["sentence"].splitlines()[0] if run.died else None,
        engines={arm: header["engines"][arm]["name"] for arm in arms},
        points=points,
        knees={arm: k for arm in arms if (k := _knee(points, arm)) is not None},
        search={arm: r for arm, r in found.items() if isinstance(r, SearchResult)},
        goodput_limits_ms=header["goodput"],
        slos=slos,
        notes=run_notes(run),
        run={**{k: v for k, v in header.items() if k != "event"}, "lanes": run.lanes},
    )


def search_step(run: RunRecord, arm: Arm) -> int | SearchResult:
    """Which number of lanes an arm plays next in a search, or what the search has found."""
    search = run.header["search"]
    slos = [Slo.model_validate(s) for s in search["slos"]]
    level = level_of(search["passes"])
    seen: dict[int, Seen] = {}
    for name in run.workloads:
        passes = run.of(name, arm)
        if passes:
            verdicts = {
                str(f.slo): (f.verdict, f.keeps)
                for f in _slos(slos, _plays(passes), run.header["seed"], level)
            }
            verdict, keeps = combined(verdicts)
            distrusted = bool(reasons(passes, failures=False))
            seen[passes[0].lanes] = Seen(verdict, keeps, len(passes), distrusted)
    return next_lanes(seen, search["most"], search["passes"])


def _played(run: RunRecord) -> list[Played]:
    """Tokens and lane time of all groups of passes that play alike: what their noise is
    estimated from. A point has a few passes only, and the machine is the same at all points."""
    groups = []
    for name in run.workloads:
        for arm in ARMS:
            plays = plays_of([list(counted(one).values()) for one in run.of(name, arm)])
            if len(plays.tokens) and np.all(plays.tokens.sum(1)):
                groups.append((plays.tokens, plays.seconds))
    return groups


def _point(
    run: RunRecord, name: str, slos: Sequence[Slo], played: Sequence[Played]
) -> PointFigures:
    by_arm = {arm: passes for arm in ARMS if (passes := run.of(name, arm))}
    first = next(iter(by_arm.values()))[0]
    return PointFigures(
        point=name,
        lanes=first.lanes if first.rate is None else None,
        rate=first.rate,
        arms={arm: _arm_point(run.header, passes, slos, played) for arm, passes in by_arm.items()},
        speedup=_speedup(by_arm, run.header["seed"], played),
    )


def _arm_point(
    header: Mapping[str, Any],
    passes: Sequence[PassRecord],
    slos: Sequence[Slo],
    played: Sequence[Played],
) -> ArmPoint:
    seed, limits = header["seed"], header["goodput"]
    plays = _plays(passes)
    figures = arm_figures(passes)
    figures = figures.model_copy(update={"latencies": {**figures.latencies, **_latencies(plays)}})
    per_user = _per_user(passes, played)
    flow = flow_of(passes)
    good = _good(plays, limits) if limits else None
    invalid = reasons(passes)
    return ArmPoint(
        valid=not invalid,
        invalid=invalid,
        notes=_piling(passes),
        figures=figures,
        total=_total(passes, flow, played),
        per_user=per_user,
        requests_per_s=flow.turns_per_s,
        in_flight=flow.in_flight,
        lanes_seen=mean_of(passes, "mean"),
        good=good,
        goodput=_times(good, flow.turns_per_s) if good else None,
        slos=_slos(slos, plays, seed, level_of(header["search"]["passes"])) if slos else [],
    )


def _plays(passes: Sequence[PassRecord]) -> list[PlayRecord]:
    return [play for one in passes for play in one.measured]


def _latencies(plays: Sequence[PlayRecord]) -> dict[str, Latency]:
    """Latencies of the turns that went well, with intervals over sessions."""
    samples = {metric: sample_of(plays, metric, failed=False) for metric in (*TURN_METRICS, "itl")}
    return {metric: latency_of(s) for metric, s in samples.items() if s is not None}


def _slos(
    slos: Sequence[Slo], plays: Sequence[PlayRecord], seed: int, level: float
) -> list[SloFigure]:
    made = []
    for slo in slos:
        kept = look(slo, plays, seed, level)
        if kept is None:  # nothing that can be held against it, hence nothing that keeps it
            made.append(SloFigure(slo=slo, figure_ms=None, verdict="undecided", keeps=False))
        else:
            figure = 1e3 * kept.figure_s
            made.append(
                SloFigure(slo=slo, figure_ms=figure, verdict=kept.verdict, keeps=kept.keeps)
            )
    return made


def _per_user(passes: Sequence[PassRecord], played: Sequence[Played]) -> Estimate:
    """ΣT / ΣD over all measured sessions; sessions are resampled, passes' noise comes on top."""
    plays = plays_of([list(counted(one).values()) for one in passes])
    return _ratio(plays, plays.seconds.sum(0), pass_noise(played, [len(passes)]))


def _total(passes: Sequence[PassRecord], flow: Flow, played: Sequence[Played]) -> Estimate:
    """Tokens a second of all lanes, or of all sessions that come; interval over sessions.

    In an open loop arrivals set it, and its error is that of the tokens of a session.
    """
    plays = plays_of([list(counted(one).values()) for one in passes])
    if passes[0].rate is None:
        seconds = lane_seconds(passes, plays.sessions) / passes[0].lanes
        return _ratio(plays, seconds, pass_noise(played, [len(passes)]))
    times_played = (plays.seconds > 0).sum(0).astype(np.float64)
    session = _ratio(plays, times_played, PassNoise(0.0, 0.0))
    return _times(session, flow.tokens_per_s / session.value if session.value else 0.0)


def _ratio(plays: Plays, bottom: Floats, noise: PassNoise) -> Estimate:
    """Σ tokens / Σ bottom with Student's interval over sessions, linearised, and ``noise`` on top.

    Not bootstrap-t, as for a ratio of arms: an engine of even speed gives all sessions of an arm
    nearly the same rate, and one that was hit by a hiccup then makes resamples without it divide
    by nearly nothing.
    """
    tokens = plays.tokens.sum(0)
    sessions = plays.sessions
    if not tokens.sum() or not bottom.sum():
        return Estimate(value=0.0, low=0.0, high=math.inf)
    once = np.ones((1, len(sessions)))
    logs, influence = log_ratio(once, tokens, bottom)
    centre, reach = float(logs[0]), math.inf
    if len(sessions) > 1:
        t = float(stats.t.ppf(0.5 + LEVEL / 2, len(sessions) - 1))
        reach = t * float(standard_error(once, influence)[0])
    low, high = np.exp(widened(centre - reach, centre + reach, noise))
    return Estimate(value=float(np.exp(centre)), low=low, high=high)


def _times(estimate: Estimate, factor: float) -> Estimate:
    return Estimate(
        value=estimate.value * factor, low=estimate.low * factor, high=estimate.high * factor
    )


def _good(plays: Sequence[PlayRecord], limits: dict[str, float]) -> Estimate:
    """Share of the measured turns that kept all limits."""
    sessions = {s: i for i, s in enumerate(dict.fromkeys(p.session for p in plays))}
    good, total = np.zeros(len(sessions)), np.zeros(len(sessions))
    for play in plays:
        for turn in play.turns:
            good[sessions[play.session]] += good_turn(turn, limits)
            total[sessions[play.session]] += 1
    if not total.sum():
        return Estimate(value=0.0, low=0.0, high=1.0)
    share = share_interval(good, total, int(total.sum()))
    return Estimate(value=share.share, low=share.low, high=share.high)


def _piling(passes: Sequence[PassRecord]) -> list[str]:
    """Open loops in which turns piled up: more of them in flight as time went on."""
    said = []
    for one in passes:
        if one.rate is None:
            continue
        # Up to the last arrival that is measured: after it nothing more is waited for.
        last = max((p.turns[0].sent_s for p in one.measured if p.turns), default=one.open_s)
        middle = (one.open_s + last) / 2
        half = middle - one.open_s
        if half <= 0:
            continue
        before, after = busy_s(one, one.open_s, middle) / half, busy_s(one, middle, last) / half
        if after > _PILING * before + 1:
            said.append(
                f"turns piled up in pass {one.number + 1} of {one.arm} at {one.rate:g} sessions a "
                f"second: {before:.1f} in flight in its first half, {after:.1f} in its second; the "
                f"endpoint does not keep up"
            )
    return said


def _speedup(
    by_arm: Mapping[Arm, Sequence[PassRecord]], seed: int, played: Sequence[Played]
) -> Pooled | None:
    if len(by_arm) < 2:
        return None
    both = pair(by_arm["candidate"], by_arm["stock"])
    if not both.playable:
        return None
    noise = pass_noise(played, [len(passes) for passes in by_arm.values()])
    return speed({"point": both}, seed, {"point": noise}).pooled["point"]


def _knee(points: Sequence[PointFigures], arm: Arm) -> Any:
    powers = []
    for point in points:
        figures = point.arms.get(arm)
        if figures is not None and figures.valid and figures.per_user.low > 0:
            rate = figures.per_user
            half = math.log(rate.high / rate.low) / 2
            powers.append(Power(point.point, figures.total.value, rate.value, half))
    return knee(powers)
