"""What the scheduler is asked and what it answers, as values."""

from collections.abc import Callable
from dataclasses import dataclass

from loadjudge.reference.sampling import Sampling
from loadjudge.reference.speculate import Rules


@dataclass(frozen=True, slots=True)
class Request:
    """One generation. ``reuse``: whether it may read the prefix cache; ``script``: a reply that is
    given whatever the model says (only a cheating engine's requests have one)."""

    id: str
    prompt: tuple[int, ...]
    sampling: Sampling
    seed: int
    max_tokens: int
    min_tokens: int = 0
    ignore_eos: bool = False
    cache_salt: str | None = None
    reuse: bool = True
    script: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """What one step gave one request. ``finish``: "stop", "length" or ``None``."""

    id: str
    tokens: tuple[int, ...]
    finish: str | None
    cached: int  # prompt tokens found in the prefix cache


@dataclass(frozen=True, slots=True)
class Hooks:
    """Where a cheating engine (redteam.py) takes hold; an honest one changes nothing.

    ``asked``: a request as it comes in. ``rules``: those of a step that draws for so many
    sequences. ``served``: what a step gives a reply that may still grow by so many tokens.
    """

    asked: Callable[[Request], Request] = lambda request: request
    rules: Callable[[Rules, int], Rules] = lambda rules, _lanes: rules
    served: Callable[[Output, int], Output] = lambda output, _room: output


HONEST = Hooks()
