"""Do replies over HTTP agree with those that calibration draws from the engine's own sampler?

Starts engine directories for real, plays a small task on them through the judge, and draws the
same plays (same seeds, same lanes) in virtual time. An engine's reply depends on its prompt and
seed alone, so that replies must be the same, token for token; where an attack looks at how many
requests are in flight, only the figures can agree. Prints both, and what the judge's gates say.

    python bench/redteam_http.py [--engines stock,ngram,redteam-lenient,…] [--sessions 8]
"""

import argparse
import tempfile
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from loadjudge.cli.judge import play
from loadjudge.evaluate import evaluate
from loadjudge.gates.calibration_draw import Place, Played, Sheet, draw, score
from loadjudge.gates.calibration_work import STOCK, engines
from loadjudge.load.budget import Budget
from loadjudge.load.header import Options, load_sessions, session_files
from loadjudge.load.plan import choose, plays
from loadjudge.load.task import Task, WorkloadTable, find_task
from loadjudge.record.run import read_run
from loadjudge.record.values import Terms, TurnRecord
from loadjudge.reference.redteam import ATTACKS
from loadjudge.reference.store import shipped_model
from loadjudge.servers.engine import find_engine


def small(sessions: int) -> Task:
    """The task `reference`, one pass, four lanes and a crowd."""
    task = find_task("reference")
    workloads = {
        "team": WorkloadTable(lanes=4, sessions=sessions, ramp_s=0.5),
        "busy": WorkloadTable(lanes=16, sessions=2 * sessions, ramp_s=0.5),
    }
    return task.model_copy(update={"workloads": workloads, "passes": 1})


def figures(terms: Sequence[Terms], turns: Sequence[TurnRecord]) -> str:
    """Means a token, with their own errors, and tokens a reply."""
    n = sum(len(t.logp) for t in terms)
    excess = sum(float((t.logp - t.expected).sum()) for t in terms)
    variance = sum(float(t.variance.sum()) for t in terms)
    first = sum(float((t.is_first - t.q_first).sum()) for t in terms)
    outside = sum(float((t.q <= 0).sum()) for t in terms)
    plain = sum(float(t.logp.sum()) for t in terms)
    sources = {t.source for t in turns}
    return (
        f"{len(terms):4} replies {n:6,} tokens  log p {plain / n:+.4f}  "
        f"excess {excess / n:+.5f} ± {variance**0.5 / n:.5f}  first {first / n:+.5f}  "
        f"outside {outside / n:.5f}  reply {np.mean([len(t.logp) for t in terms]):5.1f}  "
        f"count by {'/'.join(map(str, sources))}"
    )


def compare(name: str, task: Task, directory: Path, seed: int) -> None:
    """One engine, both ways."""
    options = Options(
        task=task,
        stock=find_engine("servers/reference/stock"),
        candidate=find_engine(f"servers/reference/{name}"),
        session_files=session_files(task, "dev"),
        dataset_format="auto",
        split="dev",
        seed=seed,
        extra={},
        model=None,
        insecure=False,
        idle_timeout_s=60,
        budget=Budget(seconds=0.0),
    )
    play(options, directory, {}, resume=False)
    run = read_run(directory)
    model = shipped_model()
    sampling = task.sampling.sampling()
    over_http = {
        (one.workload, p.play, t.index): t
        for one in run.passes
        if one.arm == "candidate"
        for p in one.measured
        for t in p.turns
    }
    sessions = load_sessions(options.session_files, "auto")
    chosen = choose(sessions, {w: t.sessions for w, t in task.workloads.items()}, seed)
    config = engines(task)[name]
    drawn: list[Played] = []
    for workload, some in chosen.items():
        lanes = task.workloads[workload].lanes
        assert isinstance(lanes, int)
        places = [Place(p, workload) for p in plays(some)]
        drawn += draw(config, model, places, Sheet(lanes, sampling, task.max_tokens, seed))
    by_sampler = {
        (p.place.workload, p.record.play, t.index): (t, terms)
        for p in drawn
        for t, terms in zip(p.record.turns, p.terms, strict=True)
    }
    keys = [k for k in by_sampler if k in over_http]
    same = sum(over_http[k].token_ids == by_sampler[k][0].token_ids for k in keys)
    counted = sum(
        (over_http[k].tokens, over_http[k].reported_tokens, over_http[k].source)
        == (by_sampler[k][0].tokens, by_sampler[k][0].reported_tokens, by_sampler[k][0].source)
        for k in keys
    )
    print(f"\n{name}: {same} of {len(keys)} replies the same, {counted} counted the same")
    http = [over_http[k] for k in keys]
    print("  HTTP    ", figures([score(model, t, sampling) for t in http], http))
    print("  sampler ", figures([by_sampler[k][1] for k in keys], [by_sampler[k][0] for k in keys]))
    evaluation = evaluate(run)
    for gate, found in (evaluation.gates or {}).items():
        if found.verdict == "fail":
            print(f"  {gate} fails: {found.sentence}")
    print(f"  {evaluation.verdict}", flush=True)


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    everything = (STOCK, "ngram", "draft", *(f"redteam-{a}" for a in ATTACKS))
    arguments.add_argument("--engines", default=",".join(everything))
    arguments.add_argument("--sessions", type=int, default=8, help="of the workload team")
    arguments.add_argument("--seed", type=int, default=0)
    given = arguments.parse_args()
    task = small(given.sessions)
    for name in given.engines.split(","):
        with tempfile.TemporaryDirectory() as folder:
            compare(name, task, Path(folder), given.seed)


if __name__ == "__main__":
    main()
