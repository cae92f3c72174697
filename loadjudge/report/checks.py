"""The gates of a record as rows to print: measured, limit, verdict, in words."""

from dataclasses import dataclass

from loadjudge.gates.lengths import said_range
from loadjudge.record.evaluation import Evaluation, ExcessGap, Gap, Gate, GateVerdict
from loadjudge.report import formats
from loadjudge.report.seed import seed_gates

TITLES = {
    "memory": "device memory",
    "fidelity": "fixed texts' log-probabilities",
    "likelihood": "likelihood of sampled replies",
    "argmax": "share of first choices",
    "agreement": "greedy agreement",
    "lengths": "reply lengths",
    "support": "tokens outside support",
    "ranks": "rank uniformity",
    "excess": "excess against zero",
    "integrity": "integrity of the stream",
    "text_test": "likeness of texts",
}
RATIOS = {"lengths"}  # gates whose figure is a ratio around 1
GAPS = {"likelihood", "argmax", "support"}  # gates whose figure is a difference around 0


@dataclass(frozen=True, slots=True)
class Check:
    """One row of the gates table. ``gate`` keeps the plain numbers for the drawing."""

    name: str
    title: str
    measured: str
    limit: str
    verdict: GateVerdict
    sentence: str
    details: tuple[str, ...]  # further figures that the record has
    missing_tokens: int | None
    growth: float | None  # where the tokens aren't known: by which factor they would have to grow
    gate: Gate


def checks_of(evaluation: Evaluation) -> tuple[Check, ...]:
    """The record's gates in the order of the design; gates it doesn't name come last."""
    gates = seed_gates(evaluation) if evaluation.gates is None else evaluation.gates
    names = [n for n in TITLES if n in gates] + [n for n in gates if n not in TITLES]
    return tuple(_check(name, gates[name], evaluation) for name in names)


def _check(name: str, gate: Gate, evaluation: Evaluation) -> Check:
    why = (evaluation.unavailable or {}).get(name)
    sentence = gate.sentence or ""
    if why and why not in sentence:
        sentence = f"{sentence} It could not be had: {why}.".lstrip().replace("..", ".")
    return Check(
        name=name,
        title=TITLES.get(name, name.replace("_", " ")),
        measured=measured(name, gate),
        limit=limit(name, gate, evaluation.looks.level if evaluation.looks else 0.95),
        verdict=gate.verdict,
        sentence=sentence,
        details=tuple(
            said
            for said in _details(name, evaluation, seed=evaluation.gates is None)
            if said not in sentence
        ),
        missing_tokens=gate.missing_tokens,
        growth=gate.growth,
        gate=gate,
    )


def measured(name: str, gate: Gate) -> str:
    """The figure with its 95 % interval: ``+0.0030 ± 0.0877``, ``1.117 (0.755 to 1.479)``."""
    if gate.figure is None:
        return "–"
    text = _number(name, gate.figure)
    if gate.low is None or gate.high is None:
        return text
    half = (gate.high - gate.low) / 2
    if name in GAPS and abs((gate.low + gate.high) / 2 - gate.figure) <= 0.01 * half:
        return f"{text} ± {half:.4f}"
    return f"{text} ({_number(name, gate.low)} to {_number(name, gate.high)})"


def limit(name: str, gate: Gate, level: float = 0.95) -> str:
    """What the figure or its interval has to keep to."""
    low, high = gate.bound_low, gate.bound_high
    if low is None and high is None:
        return "none set"
    if low is None:
        return f"≤ {_bound(name, high)}"
    if high is None:
        return f"≥ {_bound(name, low)}"
    at = f" at {100 * level:.3g} %" if gate.low is not None or name in GAPS | RATIOS else ""
    if abs(low + high) < 1e-9:
        return f"within ±{high:.4g}{at}"
    if abs(low + high - 2) < 1e-9:
        return f"1 ± {high - 1:.4g}{at}"
    return f"{_bound(name, low)} to {_bound(name, high)}{at}"


def _bound(name: str, value: float | None) -> str:
    if name == "memory":
        return formats.gibibytes(value)
    return "" if value is None else f"{value:,.4g}" + (" nats" if name == "fidelity" else "")


def _number(name: str, value: float) -> str:
    match name:
        case "memory":
            return formats.gibibytes(value)
        case "fidelity":
            return f"{formats.small(value)} nats"
        case "likelihood" | "argmax" | "support":
            return formats.signed(value)
        case "agreement" | "lengths":
            return f"{value:.3f}"
        case "ranks" | "excess" | "text_test":
            return f"p = {value:.2g}"
        case _:
            return f"{value:,.4g}"


def _details(name: str, evaluation: Evaluation, *, seed: bool) -> tuple[str, ...]:
    """Figures beside the gate's own: the arms' means, stock's own agreement, each workload."""
    match name:
        case "memory" if evaluation.memory is not None:
            return _memory(evaluation)
        case "likelihood" if evaluation.likelihood is not None and not seed:
            plain = _means("plain mean log-probabilities", evaluation.likelihood, " nats")
            return (plain, *_excess("excess log-likelihood", evaluation.excess_likelihood))
        case "argmax" if evaluation.argmax is not None and not seed:
            plain = _means("plain shares", evaluation.argmax, "")
            return (plain, *_excess("excess first choices", evaluation.excess_argmax))
        case "support" if evaluation.support is not None:
            own_shares = evaluation.support
            return (
                f"outside: candidate {formats.share(own_shares.candidate)}, stock "
                f"{formats.share(own_shares.stock)}",
            )
        case "agreement" if evaluation.agreement is not None:
            own = evaluation.agreement
            return (
                f"stock against stock {own.stock:.3f}, candidate against stock "
                f"{own.candidate:.3f}, over {formats.plural(own.replies, 'reply', 'replies')}",
            )
        case "lengths" if evaluation.lengths:
            ratios = tuple(
                f"{workload} {r.ratio:.3f} ({said_range(r)})"
                for workload, r in evaluation.lengths.items()
            )
            return (*ratios, *_excess("excess ends a token", evaluation.excess_end))
    return ()


def _memory(evaluation: Evaluation) -> tuple[str, ...]:
    memory, slack = evaluation.memory, evaluation.limits.memory_slack_mib
    said: list[str] = []
    if memory is not None and memory.stock_peak_mib is not None:
        said.append(f"stock's peak {formats.gibibytes(memory.stock_peak_mib)}")
    if slack is not None:
        said.append(f"slack over stock's peak {formats.gibibytes(slack)}")
    if memory is not None and memory.kind is not None:
        kind = "on the device" if memory.kind == "device" else "resident in host memory"
        said.append(f"measured {kind}")
    return tuple(said)


def _excess(what: str, gap: ExcessGap | None) -> tuple[str, ...]:
    """Each arm's excess against its known zero."""
    if gap is None:
        return ()
    arms = (
        ("candidate", gap.candidate, gap.candidate_low, gap.candidate_high),
        ("stock", gap.stock, gap.stock_low, gap.stock_high),
    )
    said = ", ".join(
        f"{arm} {formats.signed(mean)} ({formats.signed(low)} to {formats.signed(high)})"
        for arm, mean, low, high in arms
    )
    about = "" if gap.exact else ", approximate"
    return (f"{what}, 0 if lossless{about}: {said}",)


def _means(what: str, gap: Gap, unit: str) -> str:
    return (
        f"{what}: candidate {formats.signed(gap.candidate).lstrip('+')}{unit}, stock "
        f"{formats.signed(gap.stock).lstrip('+')}{unit}; gap {formats.signed(gap.gap)} "
        f"± {1.96 * gap.se:.4f}{unit}"
    )
