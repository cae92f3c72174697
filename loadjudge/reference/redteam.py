"""The red team: engines that cheat, each in one way, so that the gates can be tried on them.

Design: statistics, section 3. An attack is data: its name, what its strength means, and a function
from the parts of an honest engine to its own. What it doesn't replace stays as it was, so an
attack can be joined with any speculator. ``cheats.py`` and ``quantise.py`` hold the parts.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from loadjudge.reference import cheats
from loadjudge.reference.model import Model, Target
from loadjudge.reference.quantise import quantised
from loadjudge.reference.request import HONEST, Hooks
from loadjudge.reference.sampling import Sampler, choices
from loadjudge.reference.speculate import LOSSLESS, Drafter, Rules
from loadjudge.reference.store import with_shape


@dataclass(frozen=True, slots=True)
class Report:
    """What a server says of a reply beside its text: the ids of a step, and the tokens that its
    usage counts. An honest one says what is."""

    ids: Callable[[tuple[int, ...]], tuple[int, ...]] = lambda ids: ids
    usage: Callable[[int], int] = lambda tokens: tokens


TRUE_REPORT = Report()


@dataclass(frozen=True, slots=True)
class Parts:
    """What an attack can replace. ``target``: what tokens are drawn from; ``told``: the model that
    answers requests for log-probabilities; ``memory_mib``: held beside what is needed."""

    target: Target
    told: Model
    drafter: Drafter | None
    rules: Rules = LOSSLESS
    sampler: Sampler = choices
    hooks: Hooks = HONEST
    report: Report = TRUE_REPORT
    memory_mib: int = 0


@dataclass(frozen=True, slots=True)
class Attack:
    """``strength``: by default; ``means``: what it counts, for ``--help`` and the power table.
    ``by_lanes``: whether replies depend on how many others are in flight."""

    name: str
    does: str
    means: str
    strength: float
    apply: Callable[[Parts, float], Parts]
    by_lanes: bool = False

    def __call__(self, parts: Parts, strength: float | None = None) -> Parts:
        """The parts of an engine that cheats."""
        return self.apply(parts, self.strength if strength is None else strength)


def _sampler(make: Callable[[float], Sampler]) -> Callable[[Parts, float], Parts]:
    return lambda parts, strength: replace(parts, sampler=make(strength))


def _accepts(rule: Callable[[float, float, float, float], bool]) -> Callable[[Parts, float], Parts]:
    """``rule`` takes q, d, u and the strength."""

    def apply(parts: Parts, strength: float) -> Parts:
        rules = replace(parts.rules, accepts=lambda q, d, u: rule(q, d, u, strength))
        return replace(parts, rules=rules)

    return apply


def _hooks(**make: Callable[[Parts, float], Any]) -> Callable[[Parts, float], Parts]:
    """Replaces hooks of the scheduler, by their names."""

    def apply(parts: Parts, strength: float) -> Parts:
        made = {name: of(parts, strength) for name, of in make.items()}
        return replace(parts, hooks=replace(parts.hooks, **made))

    return apply


def _quantised(parts: Parts, bits: float, *, told: bool = True) -> Parts:
    model = quantised(parts.told, round(bits))
    return replace(parts, target=model, told=model if told else parts.told)


def _swapped(parts: Parts, order: float) -> Parts:
    model = with_shape(parts.told, replace(parts.told.shape, order=round(order)))
    return replace(parts, target=model, told=model)


def _lenient(q: float, d: float, u: float, factor: float) -> bool:
    return u * d < q * factor


def _crowded(parts: Parts, lanes: float) -> Callable[[Rules, int], Rules]:
    lenient = replace(parts.rules, accepts=lambda q, d, u: _lenient(q, d, u, 10.0))
    return lambda rules, now: rules if now < lanes else lenient


ATTACKS: Mapping[str, Attack] = {
    attack.name: attack
    for attack in (
        Attack("temperature", "draws at another temperature", "times the asked temperature", 1.05,
               _sampler(cheats.tempered)),
        Attack("top-p-ignored", "draws from beyond top-p", "top-p instead of the asked", 1.0,
               _sampler(cheats.other_top_p)),
        Attack("top-k-ignored", "draws from beyond top-k", "top-k instead of the asked, 0: all", 0,
               _sampler(cheats.other_top_k)),
        Attack("lenient", "accepts drafts too easily", "times the due probability", 10.0,
               _accepts(_lenient)),
        Attack("greedy-first", "forces the first choice", "share of tokens", 0.02,
               _sampler(cheats.greedy)),
        Attack("int4", "serves a quantised target", "bits", 4, _quantised),
        Attack("int8", "serves a quantised target", "bits", 8, _quantised),
        Attack("swapped", "serves a smaller target", "order of its n-grams", 3, _swapped),
        Attack("window", "cuts the history to its end", "tokens that are kept", 512,
               _hooks(asked=lambda _, size: cheats.windowed(round(size)))),
        Attack("short", "ends replies early", "times the end's odds; 2 takes a twentieth", 2,
               _sampler(cheats.hasty)),
        Attack("padded", "adds text to replies", "tokens a reply", 4,
               _hooks(served=lambda parts, n: cheats.padded(
                   cheats.filler(parts.told.tokenizer, round(n))))),
        Attack("padded-silent", "adds tokens without text to replies", "tokens a reply", 4,
               _hooks(served=lambda _, n: cheats.padded((cheats.SILENT,) * round(n)))),
        Attack("canned", "replays recorded replies", "share of known messages that it does so for",
               1.0, _hooks(asked=lambda parts, share: cheats.canned(parts.told.tokenizer, share))),
        Attack("synthetic", "accepts drafts whatever the target says", "probability", 0.7,
               _accepts(lambda q, d, u, fixed: u < fixed)),
        Attack("inflated", "reports more tokens than it made", "share more", 0.05,
               lambda parts, share: replace(
                   parts, report=Report(usage=lambda n: n + max(1, round(n * share))))),
        Attack("inflated-ids", "sends ids that it did not make", "every so many reads", 8,
               lambda parts, every: replace(
                   parts, report=Report(ids=cheats.stuttering(round(every))))),
        Attack("honest-when-scored", "serves a quantised target, but scores with the true one",
               "bits", 4, lambda parts, bits: _quantised(parts, bits, told=False)),
        Attack("honest-below", "accepts drafts too easily from a number of lanes on",
               "lanes", 8, _hooks(rules=_crowded), by_lanes=True),
        Attack("memory", "takes more memory than stock", "MiB", 512,
               lambda parts, mib: replace(parts, memory_mib=round(mib))),
    )
}  # fmt: skip
