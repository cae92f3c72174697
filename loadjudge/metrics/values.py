"""What can be told to the exporter: frozen values, seconds and bytes, ``None`` where unknown.

``Exporter`` takes them in its own process; ``ExporterProcess`` takes the same ones and hands them
to a process of their own, so that a timed event loop never renders a page.
"""

from dataclasses import dataclass
from typing import Literal, Protocol

RunState = Literal[
    "starting", "evidence", "playing", "scoring", "done", "interrupted", "died", "unknown"
]
RUN_STATES: tuple[RunState, ...] = (
    "starting",
    "evidence",
    "playing",
    "scoring",
    "done",
    "interrupted",
    "died",
    "unknown",
)
VERDICTS = ("pass", "fail", "inconclusive", "n/a")
SLO_VERDICTS = ("keeps", "misses", "undecided")
RUN_VERDICTS = ("passed", "failed", "inconclusive", "invalid")


@dataclass(frozen=True, slots=True)
class Run:
    """What is measured. ``engines`` holds (arm, name), at most one an arm."""

    name: str
    kind: Literal["judge", "sweep", "proxy"]
    engines: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Reply:
    """One model turn that ended, well or not. Times are from the moment of sending.

    ``itl`` holds (seconds a token, tokens) for each read after the first: k tokens that came
    together after a gap g are k latencies of g / k.
    """

    arm: str
    workload: str
    ttft_s: float | None = None
    ttfot_s: float | None = None  # to the first token of the content
    tpot_s: float | None = None
    e2el_s: float | None = None
    itl: tuple[tuple[float, int], ...] = ()
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    cached_tokens: int | None = None  # of the prompt, from the prefix cache
    error: str | None = None  # its kind; the reply then counts as failed
    good: bool | None = None  # whether it kept all limits of --goodput, where there are any


@dataclass(frozen=True, slots=True)
class Lanes:
    """How many sessions play at once. What is wanted is 0 once a pass is over."""

    arm: str
    workload: str
    in_flight: int
    wanted: int | None = None  # sessions at once in a closed loop
    rate: float | None = None  # sessions that come a second in an open one


@dataclass(frozen=True, slots=True)
class Speculation:
    """What the engine's counters gained since the last such value.

    ``accepted_at`` holds accepted tokens by position in the draft. ``tokens_per_step`` is the
    figure as it stands, over all that counts for it: 1 + Δaccepted / Δdrafts.
    """

    arm: str
    workload: str
    drafts: float | None = None  # verify steps with a draft
    drafted: float | None = None
    accepted: float | None = None
    accepted_at: tuple[float, ...] = ()
    tokens_per_step: float | None = None


@dataclass(frozen=True, slots=True)
class EngineLoad:
    """The engine's own gauges, as last scraped."""

    arm: str
    in_flight: float | None = None  # running and waiting
    waiting: float | None = None
    kv_usage: float | None = None  # 0 to 1


@dataclass(frozen=True, slots=True)
class Memory:
    """Peak memory of an arm's processes so far."""

    arm: str
    peak_bytes: float
    kind: Literal["device", "rss"]


@dataclass(frozen=True, slots=True)
class Rates:
    """Rates over the windows that have closed, of a workload or a point of a sweep."""

    arm: str
    workload: str
    tokens_per_s: float | None = None  # of all lanes
    tokens_per_s_per_lane: float | None = None
    goodput_per_s: float | None = None  # requests a second that met their SLO


@dataclass(frozen=True, slots=True)
class Speedup:
    """Candidate over stock so far; ``control``: stock over stock, the A/A."""

    workload: str  # "all": SpecScore, the geometric mean
    ratio: float
    low: float | None = None
    high: float | None = None
    control: bool = False


@dataclass(frozen=True, slots=True)
class GateState:
    """One gate as it stands."""

    gate: str
    verdict: str
    figure: float | None = None
    low: float | None = None
    high: float | None = None
    bound_low: float | None = None
    bound_high: float | None = None


@dataclass(frozen=True, slots=True)
class SloState:
    """An objective of a search as it stands at one point."""

    arm: str
    workload: str
    slo: str  # as it was given: "ttft:p99:200"
    verdict: str
    figure_s: float | None  # the statistic; infinite where so many turns failed
    limit_s: float


@dataclass(frozen=True, slots=True)
class Verdict:
    """The run's verdict so far; ``None``: none yet."""

    verdict: str | None


@dataclass(frozen=True, slots=True)
class Client:
    """The client itself: lateness of its event loop, share of one core."""

    lag_s: float | None = None  # mean of the last second
    lag_share: float | None = None  # the finished pass's own lag over its median time between reads
    cpu: float | None = None


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. ``moved``: something was played since the last such value."""

    state: RunState
    done: int = 0  # passes
    planned: int | None = None  # a search does not know
    moved: bool = True


@dataclass(frozen=True, slots=True)
class LiveRatio:
    """Candidate over stock from live traffic: of a figure (``ttft_s``) its mean or median."""

    figure: str
    of: str
    ratio: float
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class ProxyRequest:
    """One request that was passed on; a model's reply comes as a ``Reply`` too."""

    arm: str  # who answered: "stock" the upstream, "candidate" the split, "mirror"
    path: str  # "/v1/chat/completions"
    status: int | None  # None: no answer came
    seconds: float | None = None  # to the last token, or the end of the body
    streamed: bool = False


@dataclass(frozen=True, slots=True)
class ProxyState:
    """The proxy as it stands. Figures that only rise are totals since its start."""

    connections: int
    in_flight: tuple[tuple[str, int], ...] = ()  # (arm, requests)
    bytes_down: int = 0
    defects: int = 0  # of the measuring itself
    unread: int = 0  # answers that passed unread
    mirrored: int | None = None  # requests that went to the mirror as well
    mirror_dropped: int | None = None  # and that it could not keep up with
    mirror_queued: int | None = None
    recorded_sessions: int | None = None
    recorded_turns: int | None = None
    recorded_bytes: int | None = None
    record_dropped: int | None = None
    record_failing: bool | None = None


@dataclass(frozen=True, slots=True)
class Look:
    """A pass of the judge as it goes. ``Followed`` joins it with the run's log."""

    arm: str
    workload: str
    number: int
    lanes: int
    in_flight: int
    turns: int
    load: tuple[float | None, float | None, float | None] | None  # in flight, waiting, KV usage
    counters: dict[str, float] | None  # the engine's, since the pass began
    lag_s: float | None
    cpu: float | None


Value = (
    Run
    | Reply
    | Lanes
    | Speculation
    | EngineLoad
    | Memory
    | Rates
    | Speedup
    | GateState
    | SloState
    | Verdict
    | Client
    | RunProgress
    | LiveRatio
    | ProxyRequest
    | ProxyState
)
Told = Value | Look


class Takes(Protocol):
    """Whoever takes values: ``Exporter`` here, ``ExporterProcess`` in a process of its own."""

    def take(self, value: Value) -> None: ...
