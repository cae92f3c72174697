"""How long to go on, and at which level to look. Pure.

Under the rule ``decide`` the judge plays more passes while a gate is undecided, and looks again.
Looking often at 95 % would raise false alarms well above 5 in 100. So the error α is spent over
the looks k = 1, 2, …: look k may err α_k = α / (k (k + 1)), which adds up to α however many looks
there are (α/2, α/6, α/12, …). By the union bound the chance that any look's interval misses the
truth is at most α, whatever the dependence between the looks and whatever decides on going on:
valid for intervals and for p-values alike, at the price of intervals that are 1.14, 1.35, 1.46
times as wide at the first, second and third look as at a single one.

Alpha spending is Lan and DeMets 1983, "Discrete sequential boundaries for clinical trials"; a
group-sequential bound that uses the looks' correlation (O'Brien and Fleming) would need their
spacing beforehand. A confidence sequence (Howard, Ramdas, McAuliffe, Sekhon 2021) would hold at
any number of looks, but is wider at the first few, and there is none for these rank tests.

A run with a single look keeps the plain 95 %. Which look it is stands in the log as a note.
"""

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from scipy import stats

from loadjudge.gates.verdict import times
from loadjudge.load.budget import Budget
from loadjudge.record.evaluation import Evaluation, Gate, Looks
from loadjudge.record.values import ARMS, RunRecord
from loadjudge.score.bootstrap import LEVEL

PER_WORKLOAD = ("lengths",)  # gates that every workload has to satisfy; the others pool them
_UNKNOWN_GROWTH = 2.0  # where a gate can't say how many more tokens it would take
_MOST_GROWTH = 3.0  # at once: what a look says about the next is rough
_NOTE = re.compile(r"^look (\d+): ")


def share_at(look: int) -> float:
    """The share of the error that look 1, 2, … may spend; the shares add up to 1."""
    return 1 / (look * (look + 1))


def level_at(look: int | None, level: float = LEVEL) -> float:
    """The confidence level of a look's intervals; ``None`` is a run's one and only look."""
    return level if look is None else 1 - (1 - level) * share_at(look)


def limit_at(look: int | None, limit: float | None) -> float | None:
    """A p-value's limit at a look."""
    return limit if look is None or limit is None else limit * share_at(look)


def looks(look: int | None) -> Looks | None:
    """A look as the record keeps it."""
    return None if look is None else Looks(
        look=look, level=level_at(look), p_share=share_at(look)
    )  # fmt: skip


def look_note(look: int, why: str) -> str:
    """The note that the judge logs before it looks: the first and every later one."""
    return f"look {look}: {why}"


def look_of(run: RunRecord) -> int | None:
    """Which look at the evidence this is, from the log; None where only one was ever meant."""
    numbers = [int(m[1]) for note in run.notes if (m := _NOTE.match(note))]
    return max(numbers, default=None)


@dataclass(frozen=True, slots=True)
class Spent:
    """What extensions have taken so far, and how many looks there were."""

    look: int
    seconds: float = 0.0
    tokens: int = 0


@dataclass(frozen=True, slots=True)
class Decision:
    """``extend``: more passes of each arm, by workload. ``stop``: why the judge leaves it."""

    action: Literal["extend", "stop"]
    reason: str
    passes: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Cost:
    """One more pass of both arms at a workload."""

    seconds: float
    tokens: float  # of both arms
    passes: int  # of an arm so far


def next_step(evaluation: Evaluation, spent: Spent, budget: Budget) -> Decision:
    """Whether to play more passes, of which workloads, after look ``spent.look``.

    A gate that fails ends it: the run has failed. Otherwise undecided gates ask for as many
    tokens as they say that they lack, and for what the next look's stricter level costs; as many
    passes as the budget has room for are played.
    """
    gates = evaluation.gates or {}
    if evaluation.invalid:
        return Decision("stop", f"the run is invalid: {evaluation.invalid[0]}")
    failed = [name for name, gate in gates.items() if gate.verdict == "fail"]
    if failed:
        return Decision("stop", f"{', '.join(failed)} failed")
    undecided = {n: g for n, g in gates.items() if g.verdict == "inconclusive"}
    if not undecided:
        return Decision("stop", "every gate is decided")
    costs = _costs(evaluation)
    if not costs:
        return Decision("stop", "no pass tells what another would cost")
    wanted = _wanted(undecided, evaluation, costs, _stricter(spent.look))
    granted = _within(wanted, costs, spent, budget)
    open_gates = ", ".join(undecided)
    if not any(granted.values()):
        return Decision("stop", f"the budget is spent; undecided: {_missing(undecided)}")
    said = ", ".join(f"{n} of {w}" for w, n in granted.items())
    cut = "" if granted == wanted else ", all that the budget has room for"
    return Decision("extend", f"{open_gates} undecided; more passes: {said}{cut}", granted)


def _stricter(look: int) -> float:
    """By what the tokens must grow for the next look's wider quantile alone."""
    now, then = (float(stats.norm.ppf(0.5 + level_at(k) / 2)) for k in (look, look + 1))
    return (then / now) ** 2


def _costs(evaluation: Evaluation) -> dict[str, _Cost]:
    costs: dict[str, _Cost] = {}
    for workload, figures in (evaluation.workloads or {}).items():
        arms = [figures.arms[arm] for arm in ARMS if arm in figures.arms]
        if len(arms) == len(ARMS) and all(a.passes for a in arms):
            costs[workload] = _Cost(
                seconds=sum(a.lane_seconds / a.passes / figures.lanes for a in arms),
                tokens=sum(a.output_tokens / a.passes for a in arms),
                passes=min(a.passes for a in arms),
            )
    return costs


def _wanted(
    undecided: Mapping[str, Gate],
    evaluation: Evaluation,
    costs: Mapping[str, _Cost],
    stricter: float,
) -> dict[str, int]:
    """Passes that would decide the gates by what they say of themselves.

    A gate over all workloads together takes its tokens where they come quickest.
    """
    wanted: dict[str, int] = {}
    quickest = max(costs, key=lambda w: costs[w].tokens / max(costs[w].seconds, 1e-9))
    everything = sum(c.tokens * c.passes for c in costs.values())
    for name, gate in undecided.items():
        factor = min((gate.growth or _UNKNOWN_GROWTH) * stricter, _MOST_GROWTH)
        if name in PER_WORKLOAD:
            for w in _open_lengths(gate, evaluation, costs):
                more = math.ceil(costs[w].passes * (factor - 1))
                wanted[w] = max(wanted.get(w, 0), more, 1)
        else:
            more = math.ceil(everything * (factor - 1) / max(costs[quickest].tokens, 1.0))
            wanted[quickest] = max(wanted.get(quickest, 0), more, 1)
    return wanted


def _open_lengths(gate: Gate, evaluation: Evaluation, costs: Mapping[str, _Cost]) -> Iterable[str]:
    """The workloads whose ratio reaches past the limit; all, if it is the ends that are open."""
    low, high = gate.bound_low, gate.bound_high
    ratios = evaluation.lengths or {}
    if low is None or high is None:
        return tuple(costs)
    reaching = [w for w, r in ratios.items() if w in costs and (r.low < low or r.high > high)]
    return reaching or tuple(costs)


def _within(
    wanted: Mapping[str, int], costs: Mapping[str, _Cost], spent: Spent, budget: Budget
) -> dict[str, int]:
    """As many of the wanted passes as the budget has room for, each cut by the same share."""
    share = 1.0
    for limit, used, cost in (
        (budget.seconds, spent.seconds, sum(n * costs[w].seconds for w, n in wanted.items())),
        (budget.tokens, spent.tokens, sum(n * costs[w].tokens for w, n in wanted.items())),
    ):
        if limit is not None and cost > 0:
            share = min(share, max(limit - used, 0.0) / cost)
    granted = {w: math.floor(n * share + 1e-9) for w, n in wanted.items()}
    return {w: n for w, n in granted.items() if n}


def _missing(undecided: Mapping[str, Gate]) -> str:
    said = []
    for name, gate in undecided.items():
        lacks = ""
        if gate.missing_tokens is not None:
            lacks = f" (about {gate.missing_tokens:,} more tokens an arm)"
        elif gate.growth is not None:
            lacks = f" ({times(gate.growth)} the tokens)"
        said.append(name + lacks)
    return ", ".join(said)
