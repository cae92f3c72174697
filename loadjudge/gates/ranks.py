"""Where in the target's distribution each token lies. Design: statistics, section 2.

u_t = (mass of q_t ranked above y_t) + U_t · q_t(y_t), U_t uniform: the randomised probability
integral transform. If y_t is drawn from q_t, then u_t is uniform given all that came before it,
whatever that was. So u_1, u_2, … are independent uniforms under losslessness (Rosenblatt 1952),
within a session as much as between sessions, and tests for independent samples hold as they
stand: no clusters are needed. Anything that changes the distribution bends the histogram.

Both arms are asked with the same sampling seeds. An engine that honours them makes the samples
alike, which makes the two-sample test err on the quiet side.
"""

import math

import numpy as np
from scipy import special, stats

from loadjudge.gates.gaps import timed, unscored
from loadjudge.gates.verdict import p_gate
from loadjudge.random import generator
from loadjudge.record.evaluation import Gate, Ranks
from loadjudge.record.values import ARMS, Arm, Floats, RunRecord

BINS = 20


def check(run: RunRecord, limit: float | None, seed: int) -> tuple[Gate, Ranks | None]:
    """p-values must reach ``limit``. Shown is the smallest."""
    u = {arm: positions(run, arm, seed) for arm in ARMS}
    if not all(len(x) for x in u.values()):
        return unscored(run), None
    figures = Ranks(
        p_two_sample=anderson_darling(u["candidate"], u["stock"]),
        p_uniform_candidate=kolmogorov_smirnov(u["candidate"]),
        p_uniform_stock=kolmogorov_smirnov(u["stock"]),
        histogram_candidate=_histogram(u["candidate"]),
        histogram_stock=_histogram(u["stock"]),
        tokens=len(u["candidate"]),
        exact=all(r.exact for r in timed(run)),
    )
    return judge(figures, limit), figures


def judge(figures: Ranks, limit: float | None) -> Gate:
    """Uniformity counts against the candidate only where it is known to hold for stock: where
    the terms are exact, and stock's own positions are uniform."""
    held = figures.exact and (limit is None or figures.p_uniform_stock >= limit)
    p = min(figures.p_two_sample, figures.p_uniform_candidate) if held else figures.p_two_sample
    measured = (
        f"p = {figures.p_two_sample:.2g} against stock, {figures.p_uniform_candidate:.2g} against "
        f"uniform (stock {figures.p_uniform_stock:.2g}), {figures.tokens:,} tokens"
    )
    why = "stock's own ranks are not uniform" if figures.exact else "the terms are not exact"
    return p_gate(
        p,
        limit,
        measured,
        what="positions of the tokens in the target's distribution",
        same="tokens are drawn from the target's distribution as far as their ranks show",
        off="tokens' ranks in the target's distribution are not those of sampling from it",
        not_held="" if held else why,
    )


def positions(run: RunRecord, arm: Arm, seed: int) -> Floats:
    """u of each scored token of an arm. U has a stream of its own for every reply."""
    parts = [np.zeros(0)]
    for r in timed(run):
        if r.arm == arm:
            rng = generator(seed, "ranks", arm, r.workload, r.number, r.play, r.turn)
            parts.append(r.terms.above + rng.random(len(r.terms.q)) * r.terms.q)
    return np.clip(np.concatenate(parts), 0.0, 1.0)


def anderson_darling(a: Floats, b: Floats) -> float:
    """p-value of the two-sample Anderson–Darling test for samples without ties.

    A² = Σ_i (M_i N − m i)² / (i (N − i)) / (m n) over the pooled order, M_i of the first i being
    of ``a`` (Pettitt 1976); its limit distribution is the one-sample test's. SciPy's version cuts
    p-values off at 0.001, which is where the limit is.
    """
    m, n = len(a), len(b)
    total = m + n
    ours = np.concatenate([np.ones(m), np.zeros(n)])
    first = np.cumsum(ours[np.argsort(np.concatenate([a, b]), kind="stable")])[:-1]
    i = np.arange(1, total, dtype=np.float64)
    statistic = float((((first * total - m * i) ** 2) / (i * (total - i))).sum() / (m * n))
    return _anderson_darling_tail(statistic)


def _anderson_darling_tail(z: float) -> float:
    """P(A² > z) in the limit: Marsaglia and Marsaglia 2004, "Evaluating the Anderson-Darling
    Distribution", within 2e-6; far out, √3·erfc(√z), what the largest of A²'s eigenvalues,
    1/(j (j + 1)), leaves of the tail."""
    if z <= 0:
        return 1.0
    if z > 8:
        return float(math.sqrt(3) * special.erfc(math.sqrt(z)))
    if z < 2:
        inner = 0.247105 - (0.0649821 - (0.0347962 - (0.011672 - 0.00168691 * z) * z) * z) * z
        cdf = math.exp(-1.2337141 / z) / math.sqrt(z) * (2.00012 + inner * z)
    else:
        inner = 0.43424 - (0.082433 - (0.008056 - 0.0003146 * z) * z) * z
        cdf = math.exp(-math.exp(1.0776 - (2.30695 - inner * z) * z))
    return min(max(1 - cdf, 0.0), 1.0)


def kolmogorov_smirnov(u: Floats) -> float:
    """p-value against the uniform distribution on [0, 1]."""
    n = len(u)
    ordered = np.sort(u)
    i = np.arange(n)
    distance = max(float((ordered - i / n).max()), float(((i + 1) / n - ordered).max()))
    return float(stats.kstwo.sf(distance, n))


def _histogram(u: Floats) -> list[int]:
    return [int(x) for x in np.histogram(u, bins=BINS, range=(0.0, 1.0))[0]]
