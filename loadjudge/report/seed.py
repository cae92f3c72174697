"""Gates of a seed record, which has figures and limits but no verdicts.

A seed record was judged by the arena's rule, ``reject``: a gate fails where its 95 % interval lies
wholly outside its limits, so a straddling interval counts as passed (design: statistics,
section 2). The sentences say where that was so.
"""

from loadjudge.record.evaluation import Evaluation, Gap, Gate, GateVerdict
from loadjudge.report import formats

Z95 = 1.959964  # the seed pages print ±1.96 standard errors
STRADDLES = (
    " The interval reaches past the limit: no change is shown and none is excluded; "
    "by the rule reject, that counts as passed."
)


def seed_gates(evaluation: Evaluation) -> dict[str, Gate]:
    """The six gates of a seed record, ``n/a`` where a figure or a limit is missing."""
    limits = evaluation.limits
    return {
        "memory": _memory(evaluation),
        "fidelity": _fidelity(evaluation.fidelity, limits.fidelity_ceiling),
        "likelihood": _gap(
            evaluation.likelihood,
            limits.likelihood_bound,
            "Mean log-probability under the target, in nats per token: replies of the candidate "
            "{candidate:.4f}, of stock {stock:.4f}.",
        ),
        "argmax": _gap(
            evaluation.argmax,
            limits.argmax_bound,
            "Share of tokens that are the target's first choice: candidate {candidate:.4f}, "
            "stock {stock:.4f}.",
        ),
        "agreement": _agreement(evaluation.greedy_agreement, limits.greedy_agreement_floor),
        "lengths": _lengths(evaluation),
    }


def _missing(bound_low: float | None = None, bound_high: float | None = None) -> Gate:
    return Gate(
        verdict="n/a",
        sentence="The record has no figure for this check.",
        bound_low=bound_low,
        bound_high=bound_high,
    )


def _memory(evaluation: Evaluation) -> Gate:
    memory = evaluation.memory
    if memory is None:
        return _missing()
    return Gate(
        verdict="pass" if memory.ok else "fail",
        sentence=f"The candidate's processes held {formats.gibibytes(memory.peak_mib)} at their "
        f"peak; {formats.gibibytes(memory.allowed_mib)} are allowed.",
        figure=memory.peak_mib,
        bound_high=memory.allowed_mib,
    )


def _fidelity(figure: float | None, ceiling: float | None) -> Gate:
    if figure is None:
        return _missing(bound_high=ceiling)
    verdict: GateVerdict = "n/a" if ceiling is None else "pass" if figure <= ceiling else "fail"
    return Gate(
        verdict=verdict,
        sentence="On fixed texts the engines' log-probabilities differ by "
        f"{formats.small(figure)} nats per token on average.",
        figure=figure,
        bound_high=ceiling,
    )


def _gap(gap: Gap | None, bound: float | None, sentence: str) -> Gate:
    low_bound = None if bound is None else -bound
    if gap is None:
        return _missing(low_bound, bound)
    low, high = gap.gap - Z95 * gap.se, gap.gap + Z95 * gap.se
    said = sentence.format(candidate=gap.candidate, stock=gap.stock).replace("-0.", "−0.")
    return Gate(
        verdict="n/a" if bound is None else _rejects(low, high, -bound, bound),
        sentence=said + (STRADDLES if bound is not None and _straddles(low, high, bound) else ""),
        figure=gap.gap,
        low=low,
        high=high,
        bound_low=low_bound,
        bound_high=bound,
    )


def _agreement(figure: float | None, floor: float | None) -> Gate:
    if figure is None:
        return _missing(bound_low=floor)
    verdict: GateVerdict = "n/a" if floor is None else "pass" if figure >= floor else "fail"
    return Gate(
        verdict=verdict,
        sentence=f"At temperature 0 the mean reply equals stock's for {formats.share(figure)} "
        "of its length.",
        figure=figure,
        bound_low=floor,
    )


def _lengths(evaluation: Evaluation) -> Gate:
    """The workload whose lengths lie furthest from stock's stands for all."""
    margin = evaluation.limits.length_margin
    low_bound = None if margin is None else 1 - margin
    high_bound = None if margin is None else 1 + margin
    if not evaluation.lengths:
        return _missing(low_bound, high_bound)
    name, worst = max(evaluation.lengths.items(), key=lambda item: abs(item[1].ratio - 1))
    verdict: GateVerdict = "n/a"
    straddles = False
    if margin is not None:
        ratios = evaluation.lengths.values()
        each = [_rejects(r.low, r.high, 1 - margin, 1 + margin) for r in ratios]
        verdict = "fail" if "fail" in each else "pass"
        straddles = verdict == "pass" and any(
            _straddles(r.low - 1, r.high - 1, margin) for r in ratios
        )
    return Gate(
        verdict=verdict,
        sentence=f"Replies of the candidate are {worst.ratio:.3f} times as long as stock's at "
        f"{name}, the workload that is furthest from 1." + (STRADDLES if straddles else ""),
        figure=worst.ratio,
        low=worst.low,
        high=worst.high,
        bound_low=low_bound,
        bound_high=high_bound,
    )


def _rejects(low: float, high: float, bound_low: float, bound_high: float) -> GateVerdict:
    return "fail" if high < bound_low or low > bound_high else "pass"


def _straddles(low: float, high: float, bound: float) -> bool:
    outside = high < -bound or low > bound
    return not outside and (low < -bound or high > bound)
