"""Does `sweep --search` find the most lanes that keep an objective? Real sweeps against the truth.

Each search is of an embedded engine that runs so many sequences at once, so that the first token's
delay climbs beyond them. Its truth is the same engine in virtual time, the objective checked at
each number of lanes. A search is within one lane in five where found and true differ by at most a
fifth of the true number.

    python bench/search.py [--seeds 2]
"""

import argparse
import json
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from loadjudge.load.header import load_sessions
from loadjudge.reference.configuration import EngineConfig
from loadjudge.reference.cost import Cost
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.scheduler import Limits
from loadjudge.reference.store import shipped_model
from loadjudge.reference.truth import simulate_pass

ROOT = Path(__file__).resolve().parents[1]
CHAT = ROOT / "sessions/chat.jsonl"
WEIGHTS_S, TOKENS, SESSIONS, MOST = 12e-3, 24, 40, 32
# Sequences that run at once, the quantile, the limit in milliseconds.
SETTINGS = [(8, 90, 150), (8, 90, 250), (8, 50, 200), (12, 90, 250), (16, 90, 150)]
TASK = f"""
stock = "servers/reference/stock"
max_tokens = {TOKENS}
max_turns = 2
[sessions]
dev = ["{CHAT}"]
[workloads.solo]
lanes = 1
sessions = 2
[texts]
count = 1
[sampling]
top_k = 20
"""
ENGINE = """
[engine]
name = "slots"
family = "reference"
command = ["{{python}}", "-m", "loadjudge.reference", "--socket", "{{socket}}",
           "--max-num-seqs", "{slots}", "--cost.weights_s", "{weights_s}"]
"""


def main() -> None:
    """Prints a line for each search, and how many were within one lane in five."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=2)
    seeds = parser.parse_args().seeds
    within = total = 0
    for slots, quantile, limit_ms in SETTINGS:
        true = next(
            n - 1 for n in range(1, MOST + 2)
            if n > MOST or ttft_ms(slots, n, quantile) > limit_ms
        )  # fmt: skip
        for seed in range(seeds):
            outcome, lanes = searched(slots, f"ttft:p{quantile}:{limit_ms}", seed)
            good = lanes is not None and 5 * abs(lanes - true) <= true
            within, total = within + good, total + 1
            print(f"{slots:2} sequences at once, p{quantile} within {limit_ms} ms: true {true}, "
                  f"found {lanes} ({outcome})", flush=True)  # fmt: skip
    print(f"\n{within} of {total} searches within one lane in five")


@cache
def ttft_ms(slots: int, lanes: int, quantile: int) -> float:
    """The engine's own quantile of TTFT at so many lanes, by its scheduler and cost model."""
    config = EngineConfig(cost=Cost(weights_s=WEIGHTS_S), limits=Limits(max_num_seqs=slots))
    sessions = load_sessions((CHAT,), "auto", 2)[:SESSIONS]
    truth = simulate_pass(
        config, sessions, lanes, 1, Sampling(temperature=1.0, top_k=20), TOKENS,
        model=shipped_model(), ramp_s=0.1 * lanes,
    )  # fmt: skip
    return 1e3 * float(np.quantile([turn.ttft_s for turn in truth.turns], quantile / 100))


def searched(slots: int, objective: str, seed: int) -> tuple[str, int | None]:
    """Outcome and lanes of a real search."""
    with tempfile.TemporaryDirectory() as folder:
        task, engine, run = (Path(folder) / name for name in ("task.toml", "slots", "run"))
        task.write_text(TASK)
        engine.mkdir()
        (engine / "engine.toml").write_text(ENGINE.format(slots=slots, weights_s=WEIGHTS_S))
        done = subprocess.run(
            [
                *(sys.executable, "-m", "loadjudge", "sweep", "--base-url", engine, "--task", task),
                *("--search", objective, "--max-concurrency", str(MOST), "--num-sessions"),
                *(str(SESSIONS), "--passes", "2", "--num-warmups", "0", "--seed", str(seed)),
                *("--output", run),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if not (run / "sweep.json").is_file():
            sys.exit(done.stderr)
        found = json.loads((run / "sweep.json").read_bytes())["search"]["stock"]
    return found["outcome"], found["lanes"]


if __name__ == "__main__":
    main()
