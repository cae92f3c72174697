"""The whole calibration of a task of the embedded engines, over a few processes.

The engines are those that ship beside the task's stock one: directories named ``redteam-…`` are
attacks, all others are honest. Stock is drawn twice, with other seeds, to be judged against itself.
"""

import os
import pickle
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from loadjudge.errors import JudgeError, Status
from loadjudge.gates.calibrate import (
    LOOK,
    caught_at,
    checked_runs,
    errors_of,
    limits_from,
    outcome,
    uniformity,
)
from loadjudge.gates.calibration_evidence import Attacked, Evidence, Honest, Needed
from loadjudge.gates.calibration_pool import Pool, draw_pool, joined_pools, material
from loadjudge.gates.power import needs
from loadjudge.load.header import load_sessions, session_files
from loadjudge.load.task import Task
from loadjudge.paths import data_root
from loadjudge.random import derive, generator
from loadjudge.record.evaluation import Limits
from loadjudge.reference.__main__ import config_of, parser
from loadjudge.reference.configuration import EngineConfig, parts_of
from loadjudge.reference.redteam import ATTACKS
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.store import shipped_model
from loadjudge.servers.engine import read_engine
from loadjudge.sessions.shipped import load_texts

STOCK, AGAIN = "stock", "stock, other seeds"
RED = "redteam-"
_LIMIT_RUNS = 20  # of stock against itself, for the limits
_SMALL = (2000, 10000)  # tokens of the smaller runs of honest engines
_TEXTS = 12  # fixed texts
_SMALLEST = 500  # tokens an arm of the smallest budget that is tried on an attack
_MORE = 3  # times the passes, where those drawn are too few to tell
_ENOUGH = 8  # times the tokens that it takes to be caught: a pool to measure plain statistics in


@dataclass(frozen=True, slots=True)
class Plan:
    """What is drawn and tried. ``runs`` of each honest engine, ``attack_runs`` of an attack's;
    ``tokens`` an arm of a whole run; ``passes`` of each honest engine and, at most, an attack's
    (and stock's own, for runs have as many replies of both arms).
    """

    task: Task
    seed: int = 0
    runs: int = 200
    attack_runs: int = 100
    tokens: int = 100_000
    passes: int = 6
    attack_passes: int = 12
    uniform_runs: int = 1000
    uniform_tokens: int = 2000
    only: tuple[str, ...] = ()  # engines, honest or not; empty: all
    limits: Limits | None = None  # to be tried; None: those that the runs give


def engines(task: Task) -> dict[str, EngineConfig]:
    """The embedded engines that ship beside a task's stock one, by their directories' names."""
    stock = data_root() / (task.stock or "none")
    found = {}
    for path in sorted(stock.parent.glob("*/engine.toml")):
        words = list(read_engine(path.parent).command)
        if "loadjudge.reference" in words:
            flags = words[words.index("loadjudge.reference") + 1 :]
            found[path.parent.name] = config_of(parser().parse_args(flags))
    if stock.name not in found:
        raise JudgeError(
            f"{task.name} can't be calibrated: its stock is no embedded engine that ships",
            Status.USAGE,
        )
    found[STOCK] = found.pop(stock.name)
    return {**found, AGAIN: found[STOCK]}


def calibrate(plan: Plan, processes: int, say: Callable[[str], None]) -> Evidence:
    """Draws all pools, sets the limits where the plan has none, and tries them.

    Raises JudgeError for an engine that doesn't ship beside the task's stock one.
    """
    started = time.monotonic()
    names = [n for n in engines(plan.task) if n != STOCK]
    wanted = [n for n in names if not plan.only or n.removeprefix(RED) in plan.only]
    if unknown := set(plan.only) - {n.removeprefix(RED) for n in wanted}:
        raise JudgeError(
            f"{plan.task.name} has no engine {min(unknown)}: its engines are "
            f"{', '.join(n.removeprefix(RED) for n in names)}",
            Status.USAGE,
        )
    red = [n for n in wanted if n.startswith(RED)]
    honest = [n for n in wanted if n not in red]
    with tempfile.TemporaryDirectory() as folder, ProcessPoolExecutor(processes) as workers:
        where = Path(folder)
        drawn = list(workers.map(partial(_keep, plan, where), (STOCK, AGAIN)))
        say(f"stock drawn twice: {drawn[0]:,} and {drawn[1]:,} tokens")
        limits, mean_reply = workers.submit(_limits, plan, where).result()
        trying = workers.map(partial(_try, plan, where, limits), honest)
        attacking = workers.map(partial(_attack, plan, where, limits), red)
        tried, caught = {}, {}
        for name, one in zip(honest, trying, strict=True):
            tried[name] = one
            for o in one.outcomes:
                say(
                    f"{name}, {o.tokens:,} tokens: {o.failed} of {o.runs} runs fail, "
                    f"{o.inconclusive} are undecided"
                )
        for name, cheat in zip(red, attacking, strict=True):
            caught[name.removeprefix(RED)] = cheat
            o = cheat.outcome
            by = ", ".join(o.caught_by[:3]) or "no gate"
            say(f"{name}, {o.tokens:,} tokens: {o.failed} of {o.runs} runs fail ({by})")
    return Evidence(
        task=plan.task.name,
        seed=plan.seed,
        look=LOOK,
        tokens=plan.tokens,
        seconds=round(time.monotonic() - started, 1),
        cpu_seconds=round(sum(os.times()[:4]), 1),
        limits=limits,
        stock_tokens=drawn[0],
        mean_reply=mean_reply,
        honest=tried,
        attacks=caught,
    )


def drawn_pool(plan: Plan, name: str, passes: range) -> Pool:
    """An engine's replies. Every engine has seeds of its own: one that doesn't honour the
    request's is the harder case, for what the arms have in common then doesn't cancel."""
    model = shipped_model()
    sessions = load_sessions(session_files(plan.task, "dev"), plan.task.dataset_format)
    texts = load_texts(data_root() / plan.task.texts.file)[:_TEXTS]
    ids = {text.id: model.tokenizer.encode(text.text) for text in texts}
    of = material(plan.task, sessions, ids)
    if passes.start:
        of = replace(of, texts={}, greedy=())  # the pool of the first pass has them
    seed = derive(plan.seed, "pool", name)
    return draw_pool(name, engines(plan.task)[name], model, of, passes, seed)


def _keep(plan: Plan, folder: Path, name: str) -> int:
    """Draws an honest pool into a file; its tokens."""
    passes = max(plan.passes, plan.attack_passes) if name == STOCK else plan.passes
    pool = drawn_pool(plan, name, range(passes))
    (folder / name).write_bytes(pickle.dumps(pool))
    return int(pool.tokens.sum())


def _kept(folder: Path, name: str) -> Pool:
    pool: Pool = pickle.loads((folder / name).read_bytes())
    return pool


def _limits(plan: Plan, folder: Path) -> tuple[Limits, float]:
    """The limits, and stock's mean reply in tokens."""
    stock = _kept(folder, STOCK)
    mean_reply = float(np.mean(stock.tokens))
    if plan.limits is not None:
        return plan.limits, mean_reply
    again = _kept(folder, AGAIN)
    given = Limits(**plan.task.limits.model_dump())
    found = checked_runs(stock, again, given, plan.tokens, _LIMIT_RUNS, plan.seed)
    return limits_from(found, given), mean_reply


def _try(plan: Plan, folder: Path, limits: Limits, name: str) -> Honest:
    """How an honest engine fares."""
    stock = _kept(folder, STOCK)
    pool = _kept(folder, name) if name == AGAIN else drawn_pool(plan, name, range(plan.passes))
    outcomes = []
    for tokens in (*_SMALL, plan.tokens):
        found = checked_runs(stock, pool, limits, tokens, plan.runs, plan.seed)
        outcomes.append(outcome(found, tokens))
    return Honest(
        pool_tokens=int(pool.tokens.sum()),
        outcomes=outcomes,
        errors=errors_of(found),
        uniform=uniformity(stock, pool, plan.uniform_tokens, plan.uniform_runs, plan.seed),
        uniform_runs=plan.uniform_runs,
        uniform_tokens=plan.uniform_tokens,
    )


_DRAWING = frozenset({"target", "rules", "sampler", "hooks"})  # parts that say what is drawn
_SAYING = frozenset({"told", "report", "memory_mib"})  # and what is said of it


def changed_parts(task: Task, name: str) -> frozenset[str]:
    """What an attack replaces of an honest engine. A sampler that draws from the very
    distribution that it is asked for, as one without top-k where the task sets none, is none."""
    model = shipped_model()
    config = engines(task)[name]
    cheat, honest = parts_of(config, model), parts_of(replace(config, attack=None), model)
    changed = {
        part for part in _DRAWING | _SAYING if getattr(cheat, part) is not getattr(honest, part)
    }
    table = task.sampling
    asked = Sampling(table.temperature, table.top_k or 0, table.top_p)
    size = model.tokenizer.size
    # A row for each token in which it is likely, so that none falls to top-k in all of them.
    any_p = generator(0, "changed").dirichlet(np.full(size, 0.1), size)
    p = ((any_p + np.eye(size)) / 2).astype(np.float32)
    if np.array_equal(cheat.sampler(p, asked).q, honest.sampler(p, asked).q):
        changed.discard("sampler")
    return frozenset(changed)


def _sizes(most: int) -> list[int]:
    sizes = [_SMALLEST]
    while 2 * sizes[-1] <= most:
        sizes.append(2 * sizes[-1])
    return sizes


def _attack(plan: Plan, folder: Path, limits: Limits, name: str) -> Attacked:
    """What an attack takes to be caught. One that is caught early needs no large pool."""
    stock = _kept(folder, STOCK)
    pool = drawn_pool(plan, name, range(1))
    changed = changed_parts(plan.task, name)
    passes, tried, enough = 1, 0, False
    while True:
        whole = int(pool.tokens.sum())
        sizes = [n for n in _sizes(whole // 2) if n > tried]
        if sizes and not enough:
            enough, result = caught_at(stock, pool, limits, sizes, plan.attack_runs, plan.seed)
            tried = sizes[-1]
        told = enough and whole >= _ENOUGH * result.tokens
        if told or passes >= plan.attack_passes or not changed & _DRAWING:
            break
        more = range(passes, min(_MORE * passes, plan.attack_passes))
        pool = joined_pools([pool, drawn_pool(plan, name, more)])
        passes = more.stop
    needed = needs(stock, pool, plan.attack_runs, plan.seed)
    attack = ATTACKS[name.removeprefix(RED)]
    strength = engines(plan.task)[name].strength
    return Attacked(
        does=attack.does,
        means=attack.means,
        strength=attack.strength if strength is None else strength,
        pool_tokens=whole,
        mean_reply=float(np.mean(pool.tokens)),
        void=not changed,
        enough=enough,
        outcome=result,
        needs={statistic: Needed(**asdict(need)) for statistic, need in needed.items()},
    )
