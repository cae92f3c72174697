"""The evaluation record ``evaluation.json``: every key of the seed arena's records, and ours.

``Evaluation`` is what is written and read; ``evaluation.schema.json`` beside this file is made
from it (``python -m loadjudge.record.evaluation``).
"""

from pathlib import Path
from typing import Any, Literal

import orjson
from pydantic import BaseModel, ConfigDict, ValidationError

from loadjudge.errors import JudgeError

SCHEMA_VERSION = 1
SCHEMA_FILE = Path(__file__).with_name("evaluation.schema.json")

GateVerdict = Literal["pass", "fail", "inconclusive", "n/a"]
RunVerdict = Literal["passed", "failed", "inconclusive", "invalid"]


class Model(BaseModel):
    # An interval that one session can't bound is written "Infinity": JSON has no such number.
    model_config = ConfigDict(extra="forbid", frozen=True, ser_json_inf_nan="strings")


class Interval(Model):
    """A 95 % interval."""

    low: float
    high: float


class Ratio(Model):
    """Speedup of a workload: ``ratio`` is the median of ``passes``."""

    passes: list[float]
    ratio: float


class Pooled(Interval):
    """The ratio over all passes together, with its interval over sessions."""

    ratio: float
    sessions: int  # clusters that the interval resamples


class SpecScoreInterval(Interval):
    specscore: float


class Control(Model):
    """The A/A control: stock against stock from the same run."""

    ratios: dict[str, Ratio]
    pooled: dict[str, Pooled]
    specscore: SpecScoreInterval


class Gap(Model):
    """Difference of means, candidate minus stock."""

    gap: float
    se: float
    candidate: float
    stock: float


class LengthRatio(Model):
    """Ratio of mean reply tokens, candidate over stock, with its 95 % interval."""

    ratio: float
    low: float
    high: float


class Memory(Model):
    ok: bool
    peak_mib: float
    allowed_mib: float
    stock_peak_mib: float | None = None
    kind: Literal["device", "rss"] | None = None


class Agreement(Model):
    """Greedy agreement: mean share of a reply before its first difference from stock's."""

    candidate: float
    stock: float  # stock against stock, the baseline
    replies: int


class Limits(Model):
    model_config = ConfigDict(extra="allow", frozen=True)

    greedy_agreement_floor: float | None = None
    likelihood_bound: float | None = None
    argmax_bound: float | None = None
    fidelity_ceiling: float | None = None
    length_margin: float | None = None
    memory_slack_mib: float | None = None


class Gate(Model):
    """One gate: its figure, interval and limit in plain numbers, and its verdict in words."""

    verdict: GateVerdict
    sentence: str
    figure: float | None = None
    low: float | None = None
    high: float | None = None
    bound_low: float | None = None  # passes while the figure lies in [bound_low, bound_high]
    bound_high: float | None = None
    missing_tokens: int | None = None  # about how many more would decide it


class Quantile(Interval):
    """A quantile with its order-statistic interval."""

    value: float


class Latency(Model):
    """Seconds; ``n`` samples."""

    n: int
    mean: float
    p50: Quantile
    p90: Quantile
    p99: Quantile


class ArmFigures(Model):
    """What one arm did at one workload, over all its passes' measured sessions."""

    passes: int
    sessions: int
    turns: int
    failed_turns: int
    errors: dict[str, int]
    output_tokens: int
    reported_tokens: int | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    count_sources: dict[str, int]
    cut_at_max_tokens: int
    converted_results: int
    repaired_calls: int
    resends: int
    lane_seconds: float
    tokens_per_s_per_lane: float
    tokens_per_s: float  # over the measured windows, all lanes, fillers included
    acceptance: float | None = None
    kv_usage_max: float | None = None
    preemptions: float | None = None
    latencies: dict[str, Latency]  # ttft, ttfot, itl, tpot, e2el, queue


class WorkloadFigures(Model):
    lanes: int
    lanes_seen: dict[str, float | None]  # mean requests in flight that the server saw, by arm
    arms: dict[str, ArmFigures]
    lag_s: float  # the worst pass's mean event-loop lag
    median_tpot_s: float
    lag_share: float  # the worst pass's lag over that pass's median inter-token time


class Evaluation(Model):
    """See ARCHITECTURE.md, "Formats". The first block is the seed arena's own keys."""

    ratios: dict[str, Ratio]
    specscore: float | None
    greedy_agreement: float | None = None
    likelihood: Gap | None = None
    argmax: Gap | None = None
    fidelity: float | None = None
    lengths: dict[str, LengthRatio] | None = None
    memory: Memory | None = None
    acceptance: dict[str, float | None] | None = None
    limits: Limits
    reason: str | None
    score: float | None

    schema_version: int | None = None
    verdict: RunVerdict | None = None
    rule: Literal["decide", "reject"] | None = None
    gates: dict[str, Gate] | None = None
    pooled: dict[str, Pooled] | None = None
    specscore_interval: SpecScoreInterval | None = None
    control: Control | None = None
    agreement: Agreement | None = None
    workloads: dict[str, WorkloadFigures] | None = None
    invalid: list[str] | None = None  # reasons why the run can't be trusted
    notes: list[str] | None = None
    unavailable: dict[str, str] | None = None
    run: dict[str, Any] | None = None  # task, engines, seeds, versions, machine, hashes, times

    def to_bytes(self) -> bytes:
        """JSON as written; keys that say nothing are left out but for the seed's own."""
        seed_keys = ("specscore", "reason", "score")
        values = self.model_dump(mode="json", exclude_none=True)
        for key in seed_keys:
            values.setdefault(key, None)
        return orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n"


def read_evaluation(path: Path) -> Evaluation:
    """Read an evaluation record, ours or a seed's.

    Raises JudgeError where the file is missing, not JSON, or not a record (the key is named).
    """
    try:
        values = orjson.loads(path.read_bytes())
    except OSError as e:
        raise JudgeError(f"{path} can't be read: {e.strerror}") from None
    except orjson.JSONDecodeError as e:
        raise JudgeError(f"{path} is not JSON: {e}") from None
    try:
        return Evaluation.model_validate(values)
    except ValidationError as e:
        first = e.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the top level"
        raise JudgeError(
            f"{path} is not an evaluation record: {where}: {first['msg'].lower()}"
        ) from None


def schema() -> bytes:
    return (
        orjson.dumps(
            Evaluation.model_json_schema(), option=orjson.OPT_INDENT_2 | orjson.OPT_SORT_KEYS
        )
        + b"\n"
    )


if __name__ == "__main__":
    SCHEMA_FILE.write_bytes(schema())
