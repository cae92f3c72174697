"""Does the judge find the truth? Real runs over HTTP against what is known of the engines.

Each run judges a candidate of the embedded engine with the shipped task and real sockets; the
truth is `loadjudge.reference.truth`, a simulation of the same engines in virtual time, over many
seeds, of the very sessions and lanes that the run played. Stock against itself is the A/A.

    python bench/truth.py [--candidates ngram,draft,stock] [--passes 3] [--seeds 8] [--keep DIR]
"""

import argparse
import shlex
import tempfile
from pathlib import Path

from loadjudge.cli.judge import play
from loadjudge.evaluate import evaluate
from loadjudge.load.header import Options, load_sessions, session_files
from loadjudge.load.plan import choose
from loadjudge.load.task import find_task
from loadjudge.record.evaluation import Evaluation
from loadjudge.record.run import read_run
from loadjudge.reference.__main__ import config_of, parser
from loadjudge.reference.configuration import EngineConfig
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.store import shipped_model
from loadjudge.reference.truth import expected_speedup
from loadjudge.servers.engine import Engine, find_engine


def config(engine: Engine) -> EngineConfig:
    """The configuration that an engine directory's command asks for."""
    words = [w.replace("{socket}", "unused") for w in engine.command]
    return config_of(parser().parse_args(words[words.index("loadjudge.reference") + 1 :]))


def judged(candidate: str, passes: int, directory: Path, seed: int) -> tuple[Options, Evaluation]:
    """A real run of the task `reference`."""
    task = find_task("reference").model_copy(update={"passes": passes})
    options = Options(
        task=task,
        stock=find_engine("servers/reference/stock"),
        candidate=find_engine(f"servers/reference/{candidate}"),
        session_files=session_files(task, "dev"),
        dataset_format="auto",
        split="dev",
        seed=seed,
        extra={},
        model=None,
        insecure=False,
        idle_timeout_s=60,
    )
    print(f"\n{candidate} against stock: {shlex.join(options.candidate.command[3:])}", flush=True)
    play(options, directory, {}, resume=False)
    return options, evaluate(read_run(directory))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--candidates", default="ngram,draft,stock")
    arguments.add_argument("--passes", type=int, default=3)
    arguments.add_argument("--seeds", type=int, default=8, help="of the simulation")
    arguments.add_argument("--seed", type=int, default=0, help="of the runs")
    arguments.add_argument("--keep", type=Path, help="where the run directories are left")
    given = arguments.parse_args()
    model = shipped_model()
    with tempfile.TemporaryDirectory() as folder:
        for name in given.candidates.split(","):
            directory = (given.keep or Path(folder)) / name
            directory.mkdir(parents=True)
            options, found = judged(name, given.passes, directory, given.seed)
            sessions = load_sessions(options.session_files, "auto")
            chosen = choose(
                sessions, {w: t.sessions for w, t in options.task.workloads.items()}, options.seed
            )
            table = options.task.sampling
            sampling = Sampling(table.temperature, table.top_k or 0, table.top_p)
            product = 1.0
            for workload, pooled in (found.pooled or {}).items():
                true = expected_speedup(
                    config(options.stock),
                    config(options.candidate),
                    chosen[workload],
                    (found.workloads or {})[workload].lanes,
                    range(given.seeds),
                    sampling,
                    options.task.max_tokens,
                    model=model,
                )
                product *= true.ratio
                covers = pooled.low <= true.ratio <= pooled.high
                print(
                    f"{workload:6} {(found.workloads or {})[workload].lanes:3} lanes: "
                    f"truth {true.ratio:.4f} ± {true.se:.4f}, "
                    f"pooled {pooled.ratio:.4f} ({pooled.ratio / true.ratio - 1:+.2%}; "
                    f"{pooled.low:.3f} to {pooled.high:.3f}{'' if covers else ', NOT covering'}), "
                    f"median {found.ratios[workload].ratio:.4f} "
                    f"({found.ratios[workload].ratio / true.ratio - 1:+.2%})",
                    flush=True,
                )
            interval, control = found.specscore_interval, found.control
            if interval and control and found.specscore:
                truth = product ** (1 / len(found.ratios))
                a = control.specscore
                print(
                    f"SpecScore {found.specscore:.4f} ({interval.low:.3f} to {interval.high:.3f}), "
                    f"truth {truth:.4f} ({found.specscore / truth - 1:+.2%}); "
                    f"A/A {a.specscore:.4f} ({a.low:.4f} to {a.high:.4f}); "
                    f"{found.verdict}{': ' + found.invalid[0] if found.invalid else ''}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
