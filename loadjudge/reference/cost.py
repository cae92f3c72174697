"""What one step costs on the device that the engine pretends to be, in seconds.

The larger of memory time (weights, and the keys and values of every running sequence) and compute
time (each token's forward pass, and each verified position's share), plus a fixed overhead, plus
the drafter's. Verified positions run in padded batches: up to ``small_batch`` of them at memory
speed, as matrix-vector products do; more are padded to a multiple of ``tile``, as matrix-matrix
products and captured graphs are. That is why speculation helps one lane much, a few lanes less,
and a full batch little.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Load:
    """What a step does.

    ``tokens``: forwarded, prefill and verified ones; ``positions``: at which the next token is
    drawn or a draft verified; ``kv_tokens``: context read, over all sequences in the step;
    ``drafting``: sequences for which drafts were made; ``draft_steps``: forward passes of the
    draft model, in turn.
    """

    tokens: int
    positions: int
    kv_tokens: int
    drafting: int = 0
    draft_steps: int = 0


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, but for ``small_batch`` and ``tile``, which are positions."""

    overhead_s: float = 1.0e-3  # a step: scheduling, launch, output
    weights_s: float = 7.5e-3  # reading the weights once
    kv_token_s: float = 0.22e-6  # reading one token's keys and values
    token_s: float = 15e-6  # one token's forward pass
    position_s: float = 190e-6  # one verified position
    small_batch: int = 8
    tile: int = 64
    lookup_s: float = 10e-6  # prompt lookup, a sequence
    draft_weights_s: float = 0.5e-3  # the draft model, a draft step
    draft_token_s: float = 5e-6  # the draft model, a sequence and draft step

    def step_s(self, load: Load) -> float:
        """Seconds that a step takes."""
        memory = self.weights_s + self.kv_token_s * load.kv_tokens
        compute = self.token_s * load.tokens + self.position_s * self.padded(load.positions)
        return self.overhead_s + max(memory, compute) + self.draft_s(load)

    def padded(self, positions: int) -> int:
        """Positions that are paid for."""
        if positions <= self.small_batch:
            return 0
        return -(-positions // self.tile) * self.tile

    def draft_s(self, load: Load) -> float:
        """Seconds that making the drafts takes."""
        if load.draft_steps:
            return load.draft_steps * (self.draft_weights_s + self.draft_token_s * load.drafting)
        return self.lookup_s * load.drafting
