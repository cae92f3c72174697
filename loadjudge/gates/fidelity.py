"""Fixed texts' log-probabilities, candidate against stock. Design: statistics, section 2."""

import numpy as np

from loadjudge.gates.verdict import not_available
from loadjudge.record.evaluation import Gate
from loadjudge.record.values import RunRecord


def check(run: RunRecord, ceiling: float | None) -> tuple[Gate, float | None]:
    """The mean over positions of |Δ log p| of the texts' own tokens, in nats."""
    if "fidelity" in run.unavailable:
        return not_available(run.unavailable["fidelity"]), None
    stock = {t.id: t for t in run.texts if t.arm == "stock"}
    candidate = {t.id: t for t in run.texts if t.arm == "candidate"}
    both = [i for i in stock if i in candidate and stock[i].logprobs]
    if not both:
        return not_available("no fixed text was read on both arms"), None
    differences = np.concatenate(
        [np.abs(np.subtract(candidate[i].logprobs, stock[i].logprobs)) for i in both]
    )
    figure = float(differences.mean())
    worst = max(both, key=lambda i: _mean_difference(candidate[i].logprobs, stock[i].logprobs))
    measured = (
        f"the log-probabilities of {differences.size:,} tokens of {len(both)} fixed texts differ "
        f"by {figure:.2g} nats in the mean (most in {worst})"
    )
    return judge(figure, ceiling, measured), figure


def judge(figure: float, ceiling: float | None, measured: str) -> Gate:
    """The gate from its figure; ``measured`` says it in words."""
    if ceiling is None:
        sentence = f"{measured}; this task sets no limit"
        return Gate(verdict="n/a", sentence=sentence, figure=figure)
    return Gate(
        verdict="pass" if figure <= ceiling else "fail",
        sentence=f"{measured}; limit {ceiling:g}",
        figure=figure,
        bound_high=ceiling,
    )


def _mean_difference(a: tuple[float, ...], b: tuple[float, ...]) -> float:
    return float(np.abs(np.subtract(a, b)).mean())
