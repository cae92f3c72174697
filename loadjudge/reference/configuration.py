"""What an engine is made of, as values: one configuration gives the server and the simulation."""

from dataclasses import dataclass, field
from typing import Literal

from loadjudge.reference.cost import Cost
from loadjudge.reference.model import DRAFT, Model
from loadjudge.reference.scheduler import Limits, Scheduler
from loadjudge.reference.speculate import Drafter, DraftModel, PromptLookup
from loadjudge.reference.store import with_shape

Speculation = Literal["none", "ngram", "draft"]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """``tokens``: proposed a step, where it speculates; ``lookup_``: tokens that prompt lookup
    matches."""

    speculate: Speculation = "none"
    tokens: int = 4
    lookup_longest: int = 5
    lookup_shortest: int = 2
    cost: Cost = field(default_factory=Cost)
    limits: Limits = field(default_factory=Limits)


def drafter_of(config: EngineConfig, model: Model) -> Drafter | None:
    """The drafter of a configuration."""
    if config.speculate == "ngram":
        return PromptLookup(config.tokens, config.lookup_longest, config.lookup_shortest)
    if config.speculate == "draft":
        return DraftModel(with_shape(model, DRAFT), config.tokens)
    return None


def scheduler_of(config: EngineConfig, model: Model) -> Scheduler:
    """A scheduler in its first state."""
    return Scheduler(model, drafter_of(config, model), config.cost, config.limits)
