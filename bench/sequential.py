"""How often does the whole sequential procedure decide wrongly? A simulation, no HTTP.

Evidence comes in tokens with a known mean gap; after each look an undecided gate plays on, for as
many tokens as it says that it lacks (a factor of 3 at most), up to seven looks. A wrong decision
is a pass of a gap at or beyond the limit, or a fail of one within it. Nominal: 5 in 100 at most.
Beside it, the same procedure that looks at 95 % each time.

    python bench/sequential.py [--runs 20000]
"""

import argparse
from collections.abc import Callable

import numpy as np
from scipy import stats

from loadjudge.gates.sequential import level_at, limit_at
from loadjudge.gates.verdict import growth, within

LOOKS = 7
BOUND = 0.01  # nats a token
SPREAD = 1.1  # nats, of one token's excess in the difference of the arms
FIRST = 20_000  # tokens


def procedure(
    rng: np.random.Generator, gap: float, level: Callable[[int], float]
) -> tuple[str, int, float]:
    """The verdict, the looks that it took and the tokens; noise of unequal sessions included."""
    n = total = 0.0
    step = float(FIRST)
    for look in range(1, LOOKS + 1):
        total += rng.normal(gap * step, SPREAD * np.sqrt(step))
        n += step
        se = SPREAD / np.sqrt(n) * np.sqrt(rng.chisquare(60) / 60)  # as well known as 61 sessions
        reach = float(stats.t.ppf(0.5 + level(look) / 2, 60)) * se
        figure = total / n
        verdict = within(figure - reach, figure + reach, -BOUND, BOUND)
        if verdict != "inconclusive":
            return verdict, look, n
        factor = growth(figure, figure - reach, figure + reach, -BOUND, BOUND) or 2.0
        step = n * (min(max(1.2 * factor, 1.3), 3.0) - 1)
    return "inconclusive", LOOKS, n


def p_values(rng: np.random.Generator, limit: Callable[[int], float]) -> bool:
    """Whether a look of a growing uniform sample falls below its limit (a z-test stands in)."""
    n = total = 0.0
    for look in range(1, LOOKS + 1):
        step = max(n, 1000.0)
        total += rng.normal(0, np.sqrt(step))
        n += step
        if 2 * stats.norm.sf(abs(total) / np.sqrt(n)) < limit(look):
            return True
    return False


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=20_000)
    runs = parser.parse_args().runs
    rules: dict[str, Callable[[int], float]] = {"spent": level_at, "95 % each": lambda _: 0.95}
    print("gap / limit | rule      | pass, fail, open in % | wrong in % | looks | tokens")
    for share in (0.0, 0.5, 0.9, 1.0, 1.1, 2.0):
        for name, level in rules.items():
            rng = np.random.default_rng(1)
            found = [procedure(rng, share * BOUND, level) for _ in range(runs)]
            rates = [
                100 * np.mean([v == w for v, _, _ in found])
                for w in ("pass", "fail", "inconclusive")
            ]
            wrong = rates[1] if share < 1 else rates[0] if share > 1 else rates[0] + rates[1]
            print(
                f"{share:11.1f} | {name:9} | {rates[0]:6.2f} {rates[1]:6.2f} {rates[2]:6.2f}  | "
                f"{wrong:10.2f} | {np.mean([k for _, k, _ in found]):5.2f} | "
                f"{np.mean([n for _, _, n in found]):9,.0f}"
            )
    for name, at in {
        "spent": lambda k: limit_at(k, 0.05) or 0.0,
        "same each": lambda _: 0.05,
    }.items():
        rng = np.random.default_rng(2)
        alarms = 100 * np.mean([p_values(rng, at) for _ in range(runs)])
        print(
            f"p-value below its limit at any of {LOOKS} looks, limit 0.05, {name}: {alarms:.2f} %"
        )


if __name__ == "__main__":
    main()
