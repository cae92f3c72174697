"""What passes differ by beyond their sessions: the machine's noise from pass to pass.

Resampling sessions says nothing of a pass that was slow as a whole: a neighbour on the machine, a
queue that built up. Passes of one arm play the same sessions, so what their speeds differ by is
such noise and the replies' own luck. The luck is in the sessions' resampling already; how much of
it there is shows in how each session moves from pass to pass by itself, and is taken off. Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy import stats

from loadjudge.score.bootstrap import LEVEL, Floats


@dataclass(frozen=True, slots=True)
class PassNoise:
    """Variance of a pooled log ratio by passes' noise, and its degrees of freedom."""

    variance: float
    freedom: float

    def reach(self, level: float = LEVEL) -> float:
        """Half width of an interval of this noise alone: Student's, as the variance is estimated
        from a few passes."""
        if not self.freedom:
            return 0.0
        return float(stats.t.ppf(0.5 + level / 2, self.freedom) * np.sqrt(self.variance))


def pass_noise(groups: Sequence[tuple[Floats, Floats]], counts: Sequence[int]) -> PassNoise:
    """From (tokens, seconds) of passes, [passes, sessions] each: a group's passes play alike.

    To first order a pass's log speed is Σ (T/ΣT − D/ΣD) over its sessions. If sessions moved from
    pass to pass each by its own luck, the variance of that sum would be the sum of their
    variances; what it exceeds that by is the passes' own. ``counts``: how many passes stand on
    either side of the ratio. No freedom where no group has two passes: the noise is unknown then
    and adds nothing.
    """
    freedom = sum(len(tokens) - 1 for tokens, _ in groups)
    if freedom < 1:
        return PassNoise(0.0, 0.0)
    excess = 0.0
    for tokens, seconds in groups:
        logs = np.log(tokens.sum(1) / seconds.sum(1))
        each = tokens / tokens.sum(1).mean() - seconds / seconds.sum(1).mean()
        luck = ((each - each.mean(0)) ** 2).sum()
        excess += float(((logs - logs.mean()) ** 2).sum() - luck)
    variance = max(excess, 0.0) / freedom
    return PassNoise(variance * sum(1 / n for n in counts), float(freedom))


def mean_noise(noises: Sequence[PassNoise]) -> PassNoise:
    """Of the mean of independent log ratios; freedom by Satterthwaite."""
    variances = np.array([n.variance for n in noises])
    freedoms = np.array([n.freedom for n in noises])
    total = float(variances.sum())
    if total <= 0:
        return PassNoise(0.0, float(freedoms.sum()))
    known = freedoms > 0
    freedom = total**2 / float((variances[known] ** 2 / freedoms[known]).sum())
    return PassNoise(total / len(noises) ** 2, freedom)


def widened(low: float, high: float, noise: PassNoise) -> tuple[float, float]:
    """A symmetric interval of sessions' variance with passes' noise on top, in quadrature."""
    centre, half = (low + high) / 2, (high - low) / 2
    if not np.isfinite(half):
        return low, high
    reach = float(np.hypot(half, noise.reach()))
    return centre - reach, centre + reach
