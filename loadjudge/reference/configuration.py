"""What an engine is made of, as values: one configuration gives the server and the simulation."""

from dataclasses import dataclass, field
from typing import Literal

from loadjudge.reference.cost import Cost
from loadjudge.reference.model import DRAFT, Model
from loadjudge.reference.redteam import ATTACKS, Parts
from loadjudge.reference.scheduler import Limits, Scheduler
from loadjudge.reference.speculate import Drafter, DraftModel, PromptLookup
from loadjudge.reference.store import with_shape

Speculation = Literal["none", "ngram", "draft"]


@dataclass(frozen=True, slots=True)
class EngineConfig:
    """``tokens``: proposed a step, where it speculates; ``lookup_``: tokens that prompt lookup
    matches; ``attack``: of the red team, with its ``strength`` or else its own default."""

    speculate: Speculation = "none"
    tokens: int = 4
    lookup_longest: int = 5
    lookup_shortest: int = 2
    cost: Cost = field(default_factory=Cost)
    limits: Limits = field(default_factory=Limits)
    attack: str | None = None
    strength: float | None = None


def drafter_of(config: EngineConfig, model: Model) -> Drafter | None:
    """The drafter of a configuration."""
    if config.speculate == "ngram":
        return PromptLookup(config.tokens, config.lookup_longest, config.lookup_shortest)
    if config.speculate == "draft":
        return DraftModel(with_shape(model, DRAFT), config.tokens)
    return None


def parts_of(config: EngineConfig, model: Model) -> Parts:
    """What serves: the honest parts, or an attack's."""
    parts = Parts(target=model, told=model, drafter=drafter_of(config, model))
    return parts if config.attack is None else ATTACKS[config.attack](parts, config.strength)


def scheduler_of(config: EngineConfig, model: Model, parts: Parts | None = None) -> Scheduler:
    """A scheduler in its first state; ``parts``, if made already."""
    parts = parts or parts_of(config, model)
    return Scheduler(
        parts.target,
        parts.drafter,
        config.cost,
        config.limits,
        parts.rules,
        parts.sampler,
        parts.hooks,
    )
