"""Continuous batching, without I/O and without a clock: requests in, steps out.

A step takes the running sequences first (one verified position and its draft each, or a chunk of
prefill), then admits waiting ones while tokens, sequences and KV blocks last. Where blocks run
out, the latest admitted sequence is preempted and recomputed later.
"""

from collections import deque
from collections.abc import Sequence as Seq
from dataclasses import dataclass, field

import numpy as np

from loadjudge.reference.cost import Cost, Load
from loadjudge.reference.history import History, Query
from loadjudge.reference.kv import BLOCK, BlockPool, block_hashes
from loadjudge.reference.model import Target
from loadjudge.reference.request import HONEST, Hooks, Output, Request
from loadjudge.reference.sampling import Choices, Sampler, Sampling, choices
from loadjudge.reference.speculate import (
    LOSSLESS,
    NO_DRAFT,
    Ask,
    Draft,
    Drafter,
    DraftModel,
    Rules,
    grouped,
    verify,
)
from loadjudge.reference.tokenizer import END


@dataclass(frozen=True, slots=True)
class Limits:
    """Capacities. ``kv_tokens``: context tokens that the KV cache holds."""

    kv_tokens: int = 81920
    max_model_len: int = 16384
    max_num_seqs: int = 256
    max_num_batched_tokens: int = 2048


@dataclass(frozen=True, slots=True)
class StepResult:
    """``duration_s`` by the cost model; the outputs are due when it has passed."""

    duration_s: float
    outputs: tuple[Output, ...]
    load: Load


@dataclass(slots=True)
class Counters:
    """Totals since the start, for /metrics."""

    steps: int = 0
    drafts: int = 0
    draft_tokens: int = 0
    accepted: int = 0
    accepted_at: list[int] = field(default_factory=list)
    preemptions: int = 0
    prefix_queries: int = 0
    prefix_hits: int = 0
    prompt_tokens: int = 0
    generation_tokens: int = 0
    finished: dict[str, int] = field(
        default_factory=lambda: {"stop": 0, "length": 0, "abort": 0, "error": 0}
    )


@dataclass(slots=True, eq=False)
class _Sequence:
    request: Request
    history: History
    hashes: list[int]
    computed: int = 0  # tokens whose keys and values are in blocks
    cached: int = 0
    blocks: list[int] = field(default_factory=list)
    published: int = 0  # blocks made findable

    @property
    def generated(self) -> int:
        return len(self.history.tokens) - len(self.request.prompt)

    @property
    def pending(self) -> int:
        return len(self.history.tokens) - self.computed


@dataclass(frozen=True, slots=True)
class _Work:
    sequence: _Sequence
    tokens: int  # of the history, to forward
    draft: Draft
    draws: bool  # whether it reaches the end of the history


class Scheduler:
    """The engine's state. ``drafter`` ``None`` doesn't speculate.

    ``target``, ``sampler``, ``drafter`` and ``rules`` are what decides which tokens come out; each
    can be replaced on its own, and ``hooks`` are for what none of them can do.
    """

    def __init__(
        self,
        target: Target,
        drafter: Drafter | None = None,
        cost: Cost | None = None,
        limits: Limits | None = None,
        rules: Rules = LOSSLESS,
        sampler: Sampler = choices,
        hooks: Hooks = HONEST,
    ) -> None:
        self.target = target
        self.drafter = drafter
        self.cost = cost or Cost()
        self.limits = limits or Limits()
        self.rules = rules
        self.sampler = sampler
        self.hooks = hooks
        self.pool = BlockPool(self.limits.kv_tokens // BLOCK)
        self.counters = Counters()
        self.running: list[_Sequence] = []
        self.waiting: deque[_Sequence] = deque()

    def add(self, request: Request) -> None:
        """Queues a request. Raises ``ValueError`` if it could never run."""
        if not request.prompt:
            raise ValueError("the prompt is empty")
        longest = min(self.limits.max_model_len, self.pool.blocks * BLOCK)
        if len(request.prompt) >= longest:
            raise ValueError(
                f"This model's maximum context length is {longest} tokens. However, your request "
                f"has {len(request.prompt)} input tokens. Please reduce the length of the input."
            )
        request = self.hooks.asked(request)
        hashes = block_hashes(request.prompt, request.cache_salt)
        self.waiting.append(_Sequence(request, History(request.prompt), hashes))

    def abort(self, id: str) -> None:
        """Drops a request, if it is still there."""
        for queue in (self.running, self.waiting):
            for sequence in queue:
                if sequence.request.id == id:
                    queue.remove(sequence)
                    self._free(sequence)
                    self.counters.finished["abort"] += 1
                    return

    def has_work(self) -> bool:
        """Whether a step would do something."""
        return bool(self.running or self.waiting)

    def step(self) -> StepResult:
        """One step: plans it, draws its tokens, and says how long the device takes for it."""
        drafts = self._draft()
        work = self._plan(drafts)
        load = self._load(work, drafts)
        tokens = iter(self._draw([w for w in work if w.draws]))
        outputs = [self._commit(w, next(tokens)) for w in work if w.draws]
        for w in work:
            if not w.draws:
                w.sequence.computed += w.tokens
                self._publish(w.sequence)
        self.counters.steps += 1
        return StepResult(self.cost.step_s(load), tuple(outputs), load)

    # --- planning

    def _draft(self) -> dict[_Sequence, Draft]:
        if self.drafter is None:
            return {}
        ready = [s for s in self.running if s.pending == 1]
        asks = [
            Ask(s.history, s.request.sampling, s.request.seed, s.generated, self._room(s) - 1)
            for s in ready
        ]
        return dict(zip(ready, self.drafter.propose(asks), strict=True)) if asks else {}

    def _room(self, sequence: _Sequence) -> int:
        """Tokens that the reply may still grow by."""
        return min(
            sequence.request.max_tokens - sequence.generated,
            min(self.limits.max_model_len, self.pool.blocks * BLOCK) - len(sequence.history.tokens),
        )

    def _plan(self, drafts: dict[_Sequence, Draft]) -> list[_Work]:
        budget = self.limits.max_num_batched_tokens
        work: list[_Work] = []
        preempted = self.counters.preemptions
        for sequence in list(self.running):
            if sequence not in self.running:
                continue  # preempted for an earlier one
            draft = drafts.get(sequence, NO_DRAFT)
            n = min(sequence.pending, budget)
            if n == 0:
                continue
            if n + len(draft.tokens) > budget:
                draft = NO_DRAFT
            if self._grow(sequence, sequence.computed + n + len(draft.tokens)):
                work.append(_Work(sequence, n, draft, n == sequence.pending))
                budget -= n + len(draft.tokens)
        if self.counters.preemptions > preempted:
            return work  # the preempted would only come back and go again
        while self.waiting and budget > 0 and len(self.running) < self.limits.max_num_seqs:
            n = self._admit(self.waiting[0], budget)
            if n == 0:
                break
            sequence = self.waiting.popleft()
            self.running.append(sequence)
            work.append(_Work(sequence, n, NO_DRAFT, n == sequence.pending))
            budget -= n
        return work

    def _grow(self, sequence: _Sequence, tokens: int) -> bool:
        """Gives ``sequence`` blocks for ``tokens``, at the latest ones' expense, maybe its own."""
        missing = -(-tokens // BLOCK) - len(sequence.blocks)
        while missing > self.pool.free:
            victim = self.running.pop()
            self._free(victim)
            victim.computed = victim.published = 0
            self.waiting.appendleft(victim)
            self.counters.preemptions += 1
            if victim is sequence:
                return False
        if missing > 0:
            sequence.blocks += self.pool.take(missing)
        return True

    def _admit(self, sequence: _Sequence, budget: int) -> int:
        """Tokens to prefill now, after what the prefix cache holds; 0 if blocks are lacking."""
        tokens = sequence.history.tokens
        shared: list[int] = []
        if sequence.request.reuse:
            # The last token is always computed: its output is what is wanted.
            shared = self.pool.lookup(sequence.hashes[: (len(tokens) - 1) // BLOCK])
        hit = len(shared) * BLOCK
        n = min(len(tokens) - hit, budget)
        fresh = -(-(hit + n) // BLOCK) - len(shared)
        if fresh + self.pool.claimable(shared) > self.pool.free:
            return 0
        self.pool.share(shared)
        sequence.blocks = shared + self.pool.take(fresh)
        sequence.computed = hit
        sequence.published = len(shared)
        if not sequence.generated:
            sequence.cached = hit
            self.counters.prompt_tokens += len(tokens)
            if sequence.request.reuse:
                self.counters.prefix_queries += len(tokens)
                self.counters.prefix_hits += hit
        return n

    def _load(self, work: Seq[_Work], drafts: dict[_Sequence, Draft]) -> Load:
        modelled = isinstance(self.drafter, DraftModel)
        return Load(
            tokens=sum(w.tokens + len(w.draft.tokens) for w in work),
            positions=sum(1 + len(w.draft.tokens) for w in work if w.draws),
            kv_tokens=sum(w.sequence.computed for w in work),
            drafting=len(drafts),
            draft_steps=max((len(d.tokens) for d in drafts.values()), default=0) if modelled else 0,
        )

    # --- drawing

    def _draw(self, work: Seq[_Work]) -> list[list[int]]:
        if not work:
            return []
        drawn = self._drawn(work)
        return [
            tokens if w.sequence.request.script is None else _scripted(w)
            for w, tokens in zip(work, drawn, strict=True)
        ]

    def _drawn(self, work: Seq[_Work]) -> list[list[int]]:
        rules = self.hooks.rules(self.rules, len(self.running) + len(self.waiting))
        queries: list[Query] = []
        no_end: list[int] = []  # rows where the reply may not end
        row_sampling: list[Sampling] = []
        for w in work:
            request, history = w.sequence.request, w.sequence.history
            for i, token in enumerate((*w.draft.tokens, None)):
                if request.ignore_eos or w.sequence.generated + i < request.min_tokens:
                    no_end.append(len(queries))
                queries.append(history.query())
                row_sampling.append(request.sampling)
                if token is not None:
                    history.push(token)
            for _ in w.draft.tokens:
                history.pop()
        p = self.target.distributions(queries)
        if no_end:
            p[no_end, END] = 0.0
            p[no_end] /= np.maximum(p[no_end].sum(axis=1, keepdims=True), 1e-30)
        groups = grouped([w.sequence.request.sampling for w in work])
        if len(groups) == 1:
            return _verify(self.sampler(p, row_sampling[0]), work, rules)
        tokens: dict[int, list[int]] = {}
        rows = dict(grouped(row_sampling))
        for sampling, members in groups:
            group = [work[i] for i in members.tolist()]
            verified = _verify(self.sampler(p[rows[sampling]], sampling), group, rules)
            tokens |= zip(members.tolist(), verified, strict=True)
        return [tokens[i] for i in range(len(work))]

    def _commit(self, work: _Work, tokens: list[int]) -> Output:
        """Adds what was drawn to a sequence, and ends it where it ends."""
        sequence, request = work.sequence, work.sequence.request
        self._count_draft(work.draft, len(tokens) - 1)
        sequence.computed += work.tokens + len(tokens) - 1
        finish = None
        room = self._room(sequence)
        taken = 0
        for token in tokens[:room]:
            sequence.history.push(token)
            taken += 1
            if token == END and not request.ignore_eos:
                finish = "stop"
                break
        if finish is None and taken == room:
            finish = "length"
        self._publish(sequence)
        self.counters.generation_tokens += taken
        if finish:
            self.running.remove(sequence)
            self._free(sequence)
            self.counters.finished[finish] += 1
        output = Output(request.id, tuple(tokens[:taken]), finish, sequence.cached)
        return self.hooks.served(output, room - taken)

    def _count_draft(self, draft: Draft, accepted: int) -> None:
        if not draft.tokens:
            return
        counters = self.counters
        counters.drafts += 1
        counters.draft_tokens += len(draft.tokens)
        counters.accepted += accepted
        if len(counters.accepted_at) < len(draft.tokens):
            counters.accepted_at += [0] * (len(draft.tokens) - len(counters.accepted_at))
        for position in range(accepted):
            counters.accepted_at[position] += 1

    def _publish(self, sequence: _Sequence) -> None:
        tokens = sequence.history.tokens
        full = min(sequence.computed, len(tokens)) // BLOCK
        if full > len(sequence.hashes):
            sequence.hashes = block_hashes(
                tokens[: full * BLOCK], sequence.request.cache_salt, sequence.hashes
            )
        for i in range(sequence.published, full):
            self.pool.publish(sequence.blocks[i], sequence.hashes[i])
        sequence.published = max(sequence.published, full)

    def _free(self, sequence: _Sequence) -> None:
        self.pool.release(sequence.blocks)
        sequence.blocks = []


def _verify(q: Choices, work: Seq[_Work], rules: Rules) -> list[list[int]]:
    return verify(
        q,
        [w.draft for w in work],
        [w.sequence.request.seed for w in work],
        [w.sequence.generated for w in work],
        rules,
    )


def _scripted(work: _Work) -> list[int]:
    """What comes next in the script, as many tokens as if the whole draft were accepted."""
    at = work.sequence.generated
    script = work.sequence.request.script or ()
    return list(script[at : at + 1 + len(work.draft.tokens)]) or [END]
