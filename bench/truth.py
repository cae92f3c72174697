"""Does the judge find the truth? Real runs over HTTP against what is known of the engines.

Each run judges a candidate of the embedded engine over real sockets, on the shipped chat
sessions. Its truth is `loadjudge.reference.truth`: the same engines in virtual time, with a client
that takes no time at all. Two truths are shown: of the very replies that the run drew (the
simulation is given their seeds; what differs from it is the judge's own error), and the expected
one over many seeds, which the run's interval has to cover. Stock as its own candidate is the A/A.

    python bench/truth.py [--candidates ngram,draft,stock] [--passes 3] [--seeds 6] [--keep DIR]
"""

import argparse
import tempfile
from pathlib import Path

from loadjudge.cli.judge import play
from loadjudge.evaluate import evaluate
from loadjudge.load.budget import Budget
from loadjudge.load.header import Options, load_sessions, session_files
from loadjudge.load.plan import choose, plays, request_seed
from loadjudge.load.task import find_task
from loadjudge.record.evaluation import Evaluation
from loadjudge.record.run import read_run
from loadjudge.reference.__main__ import config_of, parser
from loadjudge.reference.configuration import EngineConfig
from loadjudge.reference.model import Model
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.store import shipped_model
from loadjudge.reference.truth import PassTruth, expected_speedup, simulate_pass
from loadjudge.servers.engine import Engine, find_engine
from loadjudge.sessions.model import Session

SESSIONS = {"solo": 10, "team": 16, "busy": 36}
RAMP_S = {"solo": 0.0, "team": 0.8, "busy": 1.5}


def config(engine: Engine) -> EngineConfig:
    """The configuration that an engine directory's command asks for."""
    words = [w.replace("{socket}", "unused") for w in engine.command]
    return config_of(parser().parse_args(words[words.index("loadjudge.reference") + 1 :]))


def options_of(candidate: str, passes: int, seed: int) -> Options:
    """The demo's task with whole sessions, and more of them."""
    task = find_task("demo")
    workloads = {
        w: t.model_copy(update={"sessions": SESSIONS[w], "ramp_s": RAMP_S[w]})
        for w, t in task.workloads.items()
    }
    task = task.model_copy(update={"passes": passes, "max_turns": None, "workloads": workloads})
    return Options(
        task=task,
        stock=find_engine("servers/demo/stock"),
        candidate=find_engine(f"servers/demo/{candidate}"),
        session_files=session_files(task, "dev"),
        dataset_format="auto",
        split="dev",
        seed=seed,
        extra={},
        model=None,
        insecure=False,
        idle_timeout_s=60,
        budget=Budget(seconds=0),
    )


def drawn(
    engine: EngineConfig,
    options: Options,
    workload: str,
    lanes: int,
    sessions: list[Session],
    model: Model,
    sampling: Sampling,
) -> list[PassTruth]:
    """The run's passes of one arm in virtual time, with the replies that the run drew."""
    names = [p.play for p in plays(sessions)]
    return [
        simulate_pass(
            engine,
            sessions,
            lanes,
            options.seed + number,
            sampling,
            options.task.max_tokens,
            model=model,
            ramp_s=RAMP_S[workload],
            seed_of=lambda place, turn, number=number: request_seed(
                options.seed, workload, number, names[place], turn
            ),
        )
        for number in range(options.task.passes)
    ]


def pooled(passes: list[PassTruth]) -> float:
    return sum(p.tokens for p in passes) / sum(p.lane_seconds for p in passes)


def show(options: Options, found: Evaluation, model: Model, seeds: int) -> None:
    """Found beside true, workload by workload."""
    sessions = load_sessions(options.session_files, "auto")
    chosen = choose(sessions, SESSIONS, options.seed)
    table = options.task.sampling
    sampling = Sampling(table.temperature, table.top_k or 0, table.top_p)
    engines = [config(e) for e in (options.stock, options.candidate)]
    for workload, figure in (found.pooled or {}).items():
        recorded = (found.workloads or {})[workload]
        s, c = (
            drawn(e, options, workload, recorded.lanes, chosen[workload], model, sampling)
            for e in engines
        )
        true = pooled(c) / pooled(s)
        expected = expected_speedup(
            engines[0], engines[1], chosen[workload], recorded.lanes, range(100, 100 + seeds),
            sampling, options.task.max_tokens, model=model,
        )  # fmt: skip
        covers = figure.low <= expected.ratio <= figure.high
        tokens = [(recorded.arms[a].output_tokens, sum(p.tokens for p in ps))
                  for a, ps in (("stock", s), ("candidate", c))]  # fmt: skip
        print(
            f"{workload:5}{recorded.lanes:3} lanes: found {figure.ratio:.4f}, "
            f"true of these replies {true:.4f} ({figure.ratio / true - 1:+.2%}); "
            f"interval {figure.low:.3f} to {figure.high:.3f}, "
            f"expected {expected.ratio:.3f} ± {expected.se:.3f}"
            f"{'' if covers else ' NOT COVERED'}; tokens found/true "
            + ", ".join(f"{a:,}/{b:,}" for a, b in tokens)
            + f"; speed found/true: stock {recorded.arms['stock'].tokens_per_s_per_lane:.2f}/"
            f"{pooled(s):.2f}, candidate {recorded.arms['candidate'].tokens_per_s_per_lane:.2f}/"
            f"{pooled(c):.2f}",
            flush=True,
        )
    interval, control = found.specscore_interval, found.control
    if interval and control and found.specscore:
        a = control.specscore
        print(
            f"SpecScore {found.specscore:.4f} ({interval.low:.3f} to {interval.high:.3f}); "
            f"A/A {a.specscore:.4f} ({a.low:.4f} to {a.high:.4f}); "
            f"{found.verdict}{': ' + found.invalid[0] if found.invalid else ''}",
            flush=True,
        )


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--candidates", default="ngram,draft,stock")
    arguments.add_argument("--passes", type=int, default=3)
    arguments.add_argument("--seeds", type=int, default=6, help="of the expected speedup")
    arguments.add_argument("--seed", type=int, default=0, help="of the runs")
    arguments.add_argument("--keep", type=Path, help="where the run directories are left")
    given = arguments.parse_args()
    model = shipped_model()
    with tempfile.TemporaryDirectory() as folder:
        for name in given.candidates.split(","):
            directory = (given.keep or Path(folder)) / name
            directory.mkdir(parents=True)
            options = options_of(name, given.passes, given.seed)
            print(f"\n{name} against stock", flush=True)
            play(options, directory, {}, resume=False)
            show(options, evaluate(read_run(directory)), model, given.seeds)


if __name__ == "__main__":
    main()
