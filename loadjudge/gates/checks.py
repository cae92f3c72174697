"""All checks of a run, in the order of the design. Pure."""

from dataclasses import dataclass
from typing import Any

from loadjudge.gates import (
    agreement,
    excess,
    fidelity,
    first_choice,
    integrity,
    lengths,
    likelihood,
    memory,
    ranks,
    support,
    text_test,
)
from loadjudge.gates.sequential import level_at, limit_at, looks
from loadjudge.record.evaluation import Gate, Limits
from loadjudge.record.values import RunRecord


@dataclass(frozen=True, slots=True)
class Checked:
    """The gates, and the record's fields with the figures behind them."""

    gates: dict[str, Gate]
    figures: dict[str, Any]


def gates_of(run: RunRecord, limits: Limits, seed: int, look: int | None = None) -> Checked:
    """Every check at the level of ``look``; ``None``: the run's one and only look, at 95 %.

    Where nothing is scored the text test stands in for the likelihood gates.
    """
    level = level_at(look)
    gates: dict[str, Gate] = {}
    figures: dict[str, Any] = {"looks": looks(look)}
    gates["memory"], figures["memory"] = memory.check(run, limits.memory_slack_mib)
    gates["fidelity"], figures["fidelity"] = fidelity.check(run, limits.fidelity_ceiling)
    gates["likelihood"], figures["likelihood"], figures["excess_likelihood"] = likelihood.check(
        run, limits, level
    )
    gates["argmax"], figures["argmax"], figures["excess_argmax"] = first_choice.check(
        run, limits, level
    )
    gates["agreement"], agreed = agreement.check(run, limits.greedy_agreement_floor)
    figures["agreement"] = agreed
    figures["greedy_agreement"] = agreed.candidate if agreed else None
    figures["excess_end"] = ends = lengths.measure_ends(run, level)
    gates["lengths"], figures["lengths"] = lengths.check(
        run, limits.length_margin, seed, ends=ends, ends_bound=limits.ends_bound, level=level
    )
    gates["support"], figures["support"] = support.check(run, limits.support_bound, level)
    gates["ranks"], figures["ranks"] = ranks.check(run, limit_at(look, limits.rank_p), seed)
    gates["excess"], figures["excess_test"] = excess.check(run, limit_at(look, limits.excess_p))
    gates["integrity"], figures["integrity"] = integrity.check(run)
    if figures["likelihood"] is None:
        gates["text_test"], figures["text_test"] = text_test.check(
            run, limit_at(look, limits.text_p), seed
        )
    return Checked(asked_for(gates, limits), figures)


# Which limits ask for a gate.
_LIMITS = {
    "memory": ("memory_slack_mib",),
    "fidelity": ("fidelity_ceiling",),
    "likelihood": ("likelihood_bound", "excess_likelihood_bound"),
    "argmax": ("argmax_bound", "excess_argmax_bound"),
    "agreement": ("greedy_agreement_floor",),
    "lengths": ("length_margin", "ends_bound"),
    "support": ("support_bound",),
    "ranks": ("rank_p",),
    "excess": ("excess_p",),
}
_OF_SCORES = ("likelihood", "argmax", "support", "ranks", "excess")


def asked_for(gates: dict[str, Gate], limits: Limits) -> dict[str, Gate]:
    """Marks gates that the task limits and that can't be had here: an engine that refuses to be
    looked at has not passed. The text test, where it decides, stands for those of scores."""
    stood_for = _OF_SCORES if gates.get("text_test", _NONE).verdict in ("pass", "fail") else ()
    marked = {}
    for name, gate in gates.items():
        limited = any(getattr(limits, limit) is not None for limit in _LIMITS.get(name, ()))
        missing = gate.verdict == "n/a" and limited and name not in stood_for
        marked[name] = gate.model_copy(update={"asked": True}) if missing else gate
    return marked


_NONE = Gate(verdict="n/a", sentence="")
