"""How likely sampled replies are under the target. Design: statistics, section 2.

A weaker target, another temperature or a wrong rejection rule draws tokens that the target finds
less likely, or more.
"""

from loadjudge.gates.gaps import LIKELIHOOD, excess_gap, judge_gap, plain_gap, timed, unscored
from loadjudge.gates.verdict import Words
from loadjudge.record.evaluation import ExcessGap, Gap, Gate, Limits
from loadjudge.record.values import RunRecord
from loadjudge.score.bootstrap import LEVEL

WORDS = Words(
    what="mean likelihood of sampled replies under the target",
    less="sampled replies are less likely under the target than the stock engine's",
    same="sampled replies are as likely under the target as the stock engine's",
    more="sampled replies are more likely under the target than the stock engine's",
    unit=" nats a token",
)


def check(
    run: RunRecord, limits: Limits, level: float = LEVEL
) -> tuple[Gate, Gap | None, ExcessGap | None]:
    """The gate, the gap of plain mean log-probabilities and the gap of excess log-likelihood."""
    plain = plain_gap(timed(run), LIKELIHOOD, level)
    excess = excess_gap(timed(run), LIKELIHOOD, level)
    if plain is None:
        return unscored(run), None, None
    return judge(plain, excess, limits, level), plain, excess


def judge(plain: Gap, excess: ExcessGap | None, limits: Limits, level: float = LEVEL) -> Gate:
    return judge_gap(
        WORDS, plain, excess, limits.likelihood_bound, limits.excess_likelihood_bound, level
    )
