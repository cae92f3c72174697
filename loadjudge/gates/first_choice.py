"""How often replies take the target's first choice. Design: statistics, section 2.

The record's key is ``argmax``. Greedy shortcuts raise the share; loose acceptance of a draft
lowers it, even where it leaves the likelihood alone.
"""

from loadjudge.gates.gaps import FIRST_CHOICE, excess_gap, judge_gap, plain_gap, timed, unscored
from loadjudge.gates.verdict import Words
from loadjudge.record.evaluation import ExcessGap, Gap, Gate, Limits
from loadjudge.record.values import RunRecord
from loadjudge.score.bootstrap import LEVEL

WORDS = Words(
    what="share of tokens that are the target's first choice",
    less="sampled replies take the target's first choice less often than the stock engine's",
    same="sampled replies take the target's first choice as often as the stock engine's",
    more="sampled replies take the target's first choice more often than the stock engine's",
    unit=" a token",
)


def check(
    run: RunRecord, limits: Limits, level: float = LEVEL
) -> tuple[Gate, Gap | None, ExcessGap | None]:
    """The gate, the gap of plain shares and the gap of excess first choices."""
    plain = plain_gap(timed(run), FIRST_CHOICE, level)
    excess = excess_gap(timed(run), FIRST_CHOICE, level)
    if plain is None:
        return unscored(run), None, None
    return judge(plain, excess, limits, level), plain, excess


def judge(plain: Gap, excess: ExcessGap | None, limits: Limits, level: float = LEVEL) -> Gate:
    return judge_gap(WORDS, plain, excess, limits.argmax_bound, limits.excess_argmax_bound, level)
