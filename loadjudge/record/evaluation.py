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
AcceptanceSource = Literal["counters", "gauge"]
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
    """Difference of means, candidate minus stock. A seed's record has the first four figures."""

    gap: float
    se: float
    candidate: float
    stock: float
    low: float | None = None  # the gap's interval at the record's level
    high: float | None = None
    tokens: int | None = None  # of the candidate


class ExcessGap(Interval):
    """Gap of a mean whose expectation is 0 under losslessness; each arm against that zero."""

    gap: float
    se: float
    candidate: float
    candidate_low: float
    candidate_high: float
    stock: float
    stock_low: float
    stock_high: float
    tokens: int  # of the candidate
    sessions: int  # clusters of the gap
    exact: bool  # the target's sampling distribution was known exactly at every token


class Support(Interval):
    """Share of tokens that the sampling distribution excludes: gap, candidate minus stock."""

    gap: float
    se: float
    candidate: float
    stock: float
    tokens: int


class Ranks(Model):
    """Positions of the tokens in the target's distribution: uniform on [0, 1] if lossless."""

    p_two_sample: float  # Anderson–Darling, candidate against stock
    p_uniform_candidate: float  # Kolmogorov–Smirnov
    p_uniform_stock: float
    histogram_candidate: list[int]  # tokens in equal bins of [0, 1]
    histogram_stock: list[int]
    tokens: int  # of the candidate
    exact: bool = True


class Integrity(Model):
    """Whether the candidate's stream is what it says it is."""

    violations: list[str]
    checked: list[str]  # what could be checked
    unknown: list[str]  # and what not
    replies: int
    miscounted: int | None = None  # replies whose reported count isn't the trusted one
    undecodable: int | None = None  # replies whose ids don't decode to their text
    silent_candidate: float | None = None  # share of tokens that came without text
    silent_stock: float | None = None
    trailing_candidate: float | None = None  # and after the last character of its reply
    trailing_stock: float | None = None
    characters_candidate: float | None = None  # a token
    characters_stock: float | None = None
    prompts: int | None = None  # first turns whose prompt ids were compared
    prompts_different: int | None = None
    synthetic: str | None = None  # the setting that forces acceptance


class TextTest(Model):
    """Maximum mean discrepancy between both arms' replies to the same prompts, as text."""

    statistic: float
    p: float
    prompts: int
    replies: int
    permutations: int


class Looks(Model):
    """Which look at the evidence this is, and what of the error it may spend."""

    look: int
    level: float  # of this look's intervals
    p_share: float  # of a p-value's limit


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
    differences: int | None = None  # first differences whose two tokens were scored
    near_ties: float | None = None  # share of them between tokens that the target has near-tied


class Limits(Model):
    model_config = ConfigDict(extra="allow", frozen=True)

    greedy_agreement_floor: float | None = None
    likelihood_bound: float | None = None
    argmax_bound: float | None = None
    fidelity_ceiling: float | None = None
    length_margin: float | None = None
    memory_slack_mib: float | None = None
    excess_likelihood_bound: float | None = None  # nats a token
    excess_argmax_bound: float | None = None
    ends_bound: float | None = None  # excess ends a token
    support_bound: float | None = None
    rank_p: float | None = None  # p-values below it fail
    text_p: float | None = None


class Gate(Model):
    """One gate: its figure, interval and limit in plain numbers, and its verdict in words."""

    verdict: GateVerdict
    sentence: str
    asked: bool | None = None  # n/a, though the task limits it
    figure: float | None = None
    low: float | None = None
    high: float | None = None
    bound_low: float | None = None  # passes while the figure lies in [bound_low, bound_high]
    bound_high: float | None = None
    missing_tokens: int | None = None  # about how many more an arm would decide it
    growth: float | None = None  # the factor by which the tokens would have to grow for that


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
    acceptance: float | None = None  # tokens per verify step
    acceptance_source: AcceptanceSource | None = None
    accepted_at: list[float] | None = None  # share of verify steps that accept at each position
    kv_usage_mean: float | None = None  # share of the KV cache in use, over the measured windows
    kv_usage_max: float | None = None
    waiting_max: float | None = None  # requests
    preemptions: float | None = None
    latencies: dict[str, Latency]  # ttft, ttfot, itl, tpot, e2el, queue


class KvFill(Model):
    """A workload whose lanes are to fill the KV cache, and whether they did. Shares by arm."""

    kv_tokens: float  # stock's cache
    mean_live_context: float  # tokens that a lane was expected to hold
    fill: float  # the share that was meant
    use: dict[str, float | None]  # mean share in use over the measured windows
    use_most: dict[str, float | None]
    waiting_most: dict[str, float | None]  # requests
    preemptions: dict[str, float | None]
    reached: bool | None  # by stock; None: it doesn't tell its use
    sentence: str


class WorkloadFigures(Model):
    lanes: int
    lanes_seen: dict[str, float | None]  # mean requests in flight that the server saw, by arm
    arms: dict[str, ArmFigures]
    lag_s: float  # the worst pass's mean event-loop lag
    median_tpot_s: float
    lag_share: float  # the worst pass's own lag over its median time between reads
    kv: KvFill | None = None  # of a workload with lanes = "kv"


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
    excess_likelihood: ExcessGap | None = None
    excess_argmax: ExcessGap | None = None
    excess_end: ExcessGap | None = None
    support: Support | None = None
    ranks: Ranks | None = None
    integrity: Integrity | None = None
    text_test: TextTest | None = None
    looks: Looks | None = None
    workloads: dict[str, WorkloadFigures] | None = None
    invalid: list[str] | None = None  # reasons why the run can't be trusted
    notes: list[str] | None = None
    unavailable: dict[str, str] | None = None
    run: dict[str, Any] | None = None  # task, engines, seeds, versions, machine, hashes, times

    def to_bytes(self) -> bytes:
        """JSON as written; keys that say nothing are left out but for the seed's own."""
        seed_keys = ("specscore", "reason", "score")
        # By way of JSON: only there does pydantic write infinity as a string.
        values = orjson.loads(self.model_dump_json(exclude_none=True))
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
