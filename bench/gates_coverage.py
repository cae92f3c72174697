"""Do the gates' 95 % intervals cover the truth, and are their p-values uniform? No HTTP.

Each synthetic run plays sessions on a target with known distributions: sessions differ in
sharpness, as topics do, and replies in length. Both arms are honest, so the truth of every excess
and of every gap is zero.

    python bench/gates_coverage.py [--runs 1000]
"""

import argparse
from collections import Counter

import numpy as np

from loadjudge.gates.gaps import LIKELIHOOD, excess_gap, plain_gap
from loadjudge.gates.power import FIGURES
from loadjudge.gates.ranks import anderson_darling, kolmogorov_smirnov
from loadjudge.gates.simulate import Target, replies
from loadjudge.record.values import ARMS

SETTINGS = {
    "temperature 1": Target(vocabulary=12, max_length=48),
    "temperature 0.7, top-p 0.9": Target(vocabulary=12, max_length=48, temperature=0.7, top_p=0.9),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=1000)
    runs = parser.parse_args().runs
    for setting, target in SETTINGS.items():
        print(f"\n{setting}: coverage of 95 % intervals, %")
        for sessions, turns in ((8, 6), (24, 3), (64, 2)):
            hits: Counter[str] = Counter()
            p: dict[str, list[float]] = {"two-sample": [], "uniform": []}
            widths: dict[str, float] = {"plain": 0.0, "excess": 0.0}
            for run in range(runs):
                rng = np.random.default_rng([run, sessions])
                scored = [
                    r
                    for arm in ARMS
                    for r in replies(
                        rng, arm, target=target, sessions=sessions, turns=turns, seed=run
                    )
                ]
                for name, what in FIGURES.items():
                    gap = excess_gap(scored, what)
                    assert gap is not None
                    hits[f"{name} gap"] += gap.low <= 0 <= gap.high
                    hits[f"{name} against 0"] += gap.candidate_low <= 0 <= gap.candidate_high
                    if name == "likelihood":
                        widths["excess"] += gap.high - gap.low
                plain = plain_gap(scored, LIKELIHOOD)
                assert plain is not None
                assert plain.low is not None
                assert plain.high is not None
                hits["plain likelihood gap"] += plain.low <= 0 <= plain.high
                widths["plain"] += plain.high - plain.low
                u = {
                    arm: np.concatenate(
                        [
                            r.terms.above + rng.random(len(r.terms.q)) * r.terms.q
                            for r in scored
                            if r.arm == arm
                        ]
                    )
                    for arm in ARMS
                }
                p["two-sample"].append(anderson_darling(u["candidate"], u["stock"]))
                p["uniform"].append(kolmogorov_smirnov(u["candidate"]))
            print(f"  {sessions} sessions of {turns} turns")
            for name, n in hits.items():
                print(f"    {name:30} {100 * n / runs:5.1f}")
            ratio = widths["plain"] / widths["excess"]
            print(f"    plain interval over excess interval {ratio:.2f}")
            for name, values in p.items():
                shares = ", ".join(
                    f"{100 * np.mean(np.array(values) <= at):.1f} at {100 * at:g}"
                    for at in (0.5, 0.1, 0.05, 0.01)
                )
                own = kolmogorov_smirnov(np.array(values))
                print(f"    p of ranks, {name}: % below {shares} %; that it is uniform: {own:.2g}")


if __name__ == "__main__":
    main()
