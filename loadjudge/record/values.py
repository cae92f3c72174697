"""What a run recorded, as typed values. Everything printed is a function of these.

Times are seconds from the start of the pass, on the monotonic clock of the client.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

Floats = np.ndarray[tuple[int, ...], np.dtype[np.float64]]
Arm = Literal["stock", "candidate"]
ARMS: tuple[Arm, Arm] = ("stock", "candidate")
CountSource = Literal["ids", "tokenizer", "usage"]
MemoryKind = Literal["device", "rss"]


@dataclass(frozen=True, slots=True)
class TurnRecord:
    """One model turn. ``tokens`` is the trusted count (design: statistics, section 4).

    ``arrivals`` holds one (time, tokens or None, characters) for each read that brought
    generated tokens. A turn that failed has an ``error`` (kind, message) and counts nothing.
    """

    index: int
    scheduled_s: float
    sent_s: float
    done_s: float
    arrivals: tuple[tuple[float, int | None, int], ...]
    first_content_s: float | None
    finish_reason: str | None
    tokens: int | None
    source: CountSource | None
    reported_tokens: int | None  # what the engine's usage says; kept, not believed
    prompt_tokens: int | None
    cached_tokens: int | None
    content: str
    reasoning: str
    tool_calls: tuple[dict[str, str], ...]
    token_ids: tuple[int, ...] | None
    prompt_ids: Sequence[int] | None  # a tuple; read from a log, record.prompt.PromptIds
    error: tuple[str, str] | None
    converted_results: int  # tool results sent as user messages: the model had made no such call
    repaired_calls: int  # the model's own calls whose arguments were no JSON object
    connected: bool
    resends: int
    unanswered_calls: int = 0  # calls that the session has no result for

    @property
    def first_s(self) -> float | None:
        """Arrival of the first generated token of any channel."""
        return self.arrivals[0][0] if self.arrivals else None

    @property
    def last_s(self) -> float | None:
        """Arrival of the last token-bearing read; [DONE] and usage don't extend a turn."""
        return self.arrivals[-1][0] if self.arrivals else None


@dataclass(frozen=True, slots=True)
class PlayRecord:
    """One session as played on one lane in one pass."""

    session: str  # the session's id: the cluster that intervals resample
    play: str  # unique in the pass: the session's id and its repetition
    measured: bool
    lane: int
    turns: tuple[TurnRecord, ...]
    outcome: Literal["done", "failed", "cut"]
    waited_s: float  # waits that the session scripts

    @property
    def tokens(self) -> int:
        """Output tokens of all turns, by trusted count."""
        return sum(t.tokens or 0 for t in self.turns)

    @property
    def lane_s(self) -> float:
        """Lane time D in seconds: first turn sent to last token, scripted waits excluded.

        A last turn that brought no token ends with its body: it took the lane's time too.
        """
        if not self.turns:
            return 0.0
        last = self.turns[-1]
        end = last.done_s if last.last_s is None else last.last_s
        return end - self.turns[0].sent_s - self.waited_s


@dataclass(frozen=True, slots=True)
class PassRecord:
    """One finished pass: the plays of one arm at one number of lanes."""

    workload: str
    arm: Arm
    number: int  # 0-based among the passes of this arm at this workload
    slot: int  # 0-based place in the order of play (S C C S S C)
    lanes: int
    plays: tuple[PlayRecord, ...]
    open_s: float  # the measured list opened (the ramp was over)
    close_s: float  # the last measured session closed
    lag: dict[str, float]  # event-loop lag of the client: mean, p50, p99, max in seconds, n
    cpu: float  # the client's share of one core, 0 to 1
    in_flight: dict[str, float] | None  # as the server saw it: mean, max, samples
    counters: dict[str, float] | None  # engine counters' increase over the pass; None: no such
    salt: str | None
    cache_reset: bool

    @property
    def measured(self) -> tuple[PlayRecord, ...]:
        return tuple(p for p in self.plays if p.measured)


@dataclass(frozen=True, slots=True)
class FixedText:
    """Log-probabilities of a fixed text's tokens, in nats; the first token has none."""

    arm: Arm
    id: str
    token_ids: tuple[int, ...]
    logprobs: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class GreedyReply:
    """A temperature-0 reply to a session's first turn. Stock has rounds 0 and 1."""

    arm: Arm
    round: int
    session: str
    content: str
    token_ids: tuple[int, ...] | None


@dataclass(frozen=True, slots=True)
class Terms:
    """What the target says of each token of one reply: arrays of the reply's length.

    p is the target's raw distribution given the reply's own history, q the sampling
    distribution that follows from p and the request. Design: statistics, section 2.
    """

    logp: Floats  # log p(y), nats
    expected: Floats  # Σ q log p, nats: what logp is in the mean if y is drawn from q
    variance: Floats  # Var_q(log p), nats²
    is_first: Floats  # 1 where y is the target's first choice
    q_first: Floats  # q(first choice)
    is_end: Floats  # 1 where y ends the reply
    q_end: Floats  # q(end tokens)
    q: Floats  # q(y); 0 is outside the support
    above: Floats  # mass of q ranked above y


@dataclass(frozen=True, slots=True)
class ScoredReply:
    """A timed reply as the target in the judge's hands scored it."""

    arm: Arm
    workload: str
    number: int  # pass
    session: str
    play: str
    turn: int
    terms: Terms
    exact: bool  # q is exact: no more of the distribution was needed than was to be had


@dataclass(frozen=True, slots=True)
class MemoryPeak:
    """Peak memory of an arm's processes over the run, in MiB."""

    arm: Arm
    peak_mib: float
    kind: MemoryKind


@dataclass(frozen=True, slots=True)
class RunRecord:
    """A run as far as its log goes."""

    header: dict[str, Any]  # the run event: task, engines, plan, seeds, versions, machine, hashes
    passes: tuple[PassRecord, ...]
    texts: tuple[FixedText, ...]
    greedy: tuple[GreedyReply, ...]
    memory: tuple[MemoryPeak, ...]
    engines: tuple[dict[str, Any], ...]  # engine events: started, ready, stopped, died
    notes: tuple[str, ...]
    lanes: dict[str, dict[str, Any]]  # workload → lanes worked out from the KV cache, and how
    unavailable: dict[str, str]  # gate or figure → why it can't be had on this endpoint
    complete: bool  # every planned pass and check is there
    died: dict[str, Any] | None  # the event that ended a failed run
    scored: tuple[ScoredReply, ...] = ()
    extended: dict[str, int] = field(default_factory=dict)  # passes beyond the task's, by workload
    evidence: frozenset[Arm] = (
        frozenset()
    )  # arms whose fixed texts and greedy replies are all there
    # Measured plays of passes that ended while no stock engine was up to count their tokens, by
    # the pass's number among all attempts.
    uncounted: dict[int, tuple[PlayRecord, ...]] = field(default_factory=dict)

    def of(self, workload: str, arm: Arm) -> tuple[PassRecord, ...]:
        return tuple(p for p in self.passes if p.workload == workload and p.arm == arm)

    @property
    def workloads(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(p.workload for p in self.passes))
