"""A sweep as a table: a row for each arm at each point, one figure a column.

Names carry their unit: ``_ms``, ``_per_s``; ``_low`` and ``_high`` end 95 % intervals over
sessions.
A figure that is not known is empty, never 0.
"""

import csv
import io
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from loadjudge.errors import JudgeError, Status
from loadjudge.record.evaluation import Latency
from loadjudge.record.files import write_whole
from loadjudge.record.values import Arm
from loadjudge.sweep.record import ArmPoint, Estimate, PointFigures, SweepRecord

Cell = str | int | float | bool | None
METRICS = ("ttft", "ttfot", "tpot", "itl", "e2el", "queue")
_TEXTS = ("point", "arm", "engine", "why_invalid")
_FLAGS = ("valid", "knee")
_COUNTS = ("lanes", "passes", "sessions", "turns", "failed_turns", "output_tokens")


def rows_of(record: SweepRecord) -> list[dict[str, Cell]]:
    """The rows, in the order of the points' load; every row has all columns."""
    return [
        _row(record, point, arm, figures)
        for point in record.points
        for arm, figures in point.arms.items()
    ]


def _row(
    record: SweepRecord, point: PointFigures, arm: Arm, arm_point: ArmPoint
) -> dict[str, Cell]:
    figures = arm_point.figures
    knee = record.knees.get(arm)
    row: dict[str, Cell] = {
        "point": point.point,
        "lanes": point.lanes,
        "sessions_per_s": point.rate,
        "arm": arm,
        "engine": record.engines[arm],
        "valid": arm_point.valid,
        "why_invalid": "; ".join(arm_point.invalid),
        "knee": knee is not None and knee.point == point.point,
        "passes": figures.passes,
        "sessions": figures.sessions,
        "turns": figures.turns,
        "failed_turns": figures.failed_turns,
        "output_tokens": figures.output_tokens,
        **_estimate("output_tokens_per_s", arm_point.total),
        **_estimate("output_tokens_per_s_per_user", arm_point.per_user),
        "requests_per_s": arm_point.requests_per_s,
        **_estimate("good_share", arm_point.good),
        **_estimate("goodput_requests_per_s", arm_point.goodput),
        "in_flight": arm_point.in_flight,
        "in_flight_seen_by_server": arm_point.lanes_seen,
        "tokens_per_verify_step": figures.acceptance,
        "kv_usage_max": figures.kv_usage_max,
        "preemptions": figures.preemptions,
    }
    for metric in METRICS:
        row |= dict(_latency(metric, figures.latencies.get(metric)))
    speedup = point.speedup if arm == "candidate" else None
    row["speedup"] = speedup.ratio if speedup else None
    row["speedup_low"], row["speedup_high"] = (
        (_finite(speedup.low), _finite(speedup.high)) if speedup else (None, None)
    )
    return row


def _estimate(name: str, estimate: Estimate | None) -> dict[str, Cell]:
    if estimate is None:
        return {name: None, f"{name}_low": None, f"{name}_high": None}
    return {
        name: estimate.value,
        f"{name}_low": _finite(estimate.low),
        f"{name}_high": _finite(estimate.high),
    }


def _latency(metric: str, latency: Latency | None) -> Iterator[tuple[str, Cell]]:
    yield f"{metric}_mean_ms", None if latency is None else 1e3 * latency.mean
    for name in ("p50", "p90", "p99"):
        quantile = None if latency is None else getattr(latency, name)
        yield f"{metric}_{name}_ms", None if quantile is None else 1e3 * quantile.value
        yield f"{metric}_{name}_low_ms", None if quantile is None else 1e3 * quantile.low
        yield f"{metric}_{name}_high_ms", None if quantile is None else 1e3 * quantile.high


def _finite(value: float) -> float | None:
    """An end of an interval; None where there is none."""
    return value if math.isfinite(value) else None


def to_csv(record: SweepRecord) -> bytes:
    """The table as CSV with a header line."""
    rows = rows_of(record)
    out = io.StringIO()
    writer = csv.DictWriter(out, list(rows[0]) if rows else [*_TEXTS], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _csv(v) for k, v in row.items()} for row in rows)
    return out.getvalue().encode()


def _csv(value: Cell) -> Cell:
    return str(value).lower() if isinstance(value, bool) else value


def write_parquet(record: SweepRecord, path: Path) -> None:
    """The table as Parquet. Raises JudgeError where pyarrow is missing or the file can't be
    written."""
    pa, pq = arrow()
    rows = rows_of(record)
    columns: dict[str, Any] = {
        name: pa.array([row[name] for row in rows], type=_type(pa, name))
        for name in (rows[0] if rows else ())
    }
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink)
    write_whole(path, sink.getvalue().to_pybytes())


def arrow() -> tuple[Any, Any]:
    """pyarrow and its Parquet module. Raises JudgeError (set-up) where it is not installed."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise JudgeError(
            "Parquet needs pyarrow: pip install 'loadjudge[parquet]'", Status.SETUP
        ) from None
    return pyarrow, pyarrow.parquet


def _type(pa: Any, name: str) -> Any:
    if name in _TEXTS:
        return pa.string()
    if name in _FLAGS:
        return pa.bool_()
    return pa.int64() if name in _COUNTS else pa.float64()
