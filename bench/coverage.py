"""Do the 95 % intervals cover the truth 95 times in 100? A simulation, no HTTP.

Each synthetic run draws sessions from a population with a known speedup: a session's own mean
speedup and its stock rate vary from session to session (topic, acceptance, share of prefill),
reply lengths are skewed, and each play of a session differs from the next (other replies).
The truth is the population's ratio of sums.

    python bench/coverage.py [--runs 1000]
"""

import argparse

import numpy as np

from loadjudge.score.speed import Pair, Plays, speed

LOG_SPEEDUP = {"solo": np.log(2.4), "team": np.log(1.7), "busy": np.log(1.35)}


def draw(rng: np.random.Generator, sessions: int, passes: int, log_speedup: float) -> Pair:
    """One workload of a synthetic run, with the population's spread of real sessions."""
    mean_tokens = rng.lognormal(np.log(220), 0.7, sessions)
    stock_s_per_token = 0.009 * rng.lognormal(0, 0.15, sessions)
    gain = log_speedup + rng.normal(0, 0.22, sessions)

    def arm(s_per_token: np.ndarray) -> Plays:
        tokens = np.rint(mean_tokens * rng.lognormal(0, 0.35, (passes, sessions))) + 1
        seconds = tokens * s_per_token * rng.lognormal(0, 0.06, (passes, sessions))
        return Plays(tuple(map(str, range(sessions))), tokens, seconds + 0.02)

    return Pair(candidate=arm(stock_s_per_token / np.exp(gain)), stock=arm(stock_s_per_token))


def truth(log_speedup: float) -> float:
    """The population's ratio, from one draw of 400,000 sessions."""
    pair = draw(np.random.default_rng(0), 400_000, 3, log_speedup)
    c, s = pair.candidate, pair.stock
    return float((c.tokens.sum() / c.seconds.sum()) / (s.tokens.sum() / s.seconds.sum()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    true = {w: truth(g) for w, g in LOG_SPEEDUP.items()}
    true_score = float(np.prod(list(true.values())) ** (1 / 3))
    print("sessions a workload | coverage of the 95 % interval, % (and its mean half width, %)")
    for counts in ((8, 8, 8), (12, 12, 12), (8, 24, 60), (24, 24, 24), (60, 60, 60)):
        hits = dict.fromkeys([*true, "SpecScore"], 0)
        width = dict.fromkeys(hits, 0.0)
        for run in range(runs):
            rng = np.random.default_rng([run, *counts])
            pairs = {
                w: draw(rng, n, 3, g) for (w, g), n in zip(LOG_SPEEDUP.items(), counts, strict=True)
            }
            # Sessions of different workloads are different sessions.
            pairs = {
                w: Pair(
                    *(
                        Plays(tuple(w + s for s in a.sessions), a.tokens, a.seconds)
                        for a in (p.candidate, p.stock)
                    )
                )
                for w, p in pairs.items()
            }
            figures = speed(pairs, run)
            for w, interval in (*figures.pooled.items(), ("SpecScore", figures.interval)):
                hits[w] += interval.low <= (true.get(w) or true_score) <= interval.high
                width[w] += np.log(interval.high / interval.low) / 2
        cells = (f"{w} {100 * hits[w] / runs:.1f} (±{100 * width[w] / runs:.1f})" for w in hits)
        print(f"{'/'.join(map(str, counts)):>19} | " + ", ".join(cells))


if __name__ == "__main__":
    main()
