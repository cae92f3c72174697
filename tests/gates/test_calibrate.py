"""Limits from runs, and whole runs drawn by an engine's own scheduler."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from loadjudge.errors import JudgeError
from loadjudge.gates import simulate
from loadjudge.gates.calibrate import (
    caught_at,
    checked_runs,
    errors_of,
    limits_from,
    outcome,
    rounded_up,
    uniformity,
)
from loadjudge.gates.calibration_draw import ENDS, Place, Sheet, draw, score
from loadjudge.gates.calibration_evidence import (
    Attacked,
    Evidence,
    Needed,
    read_evidence,
    with_rows_of,
    write_evidence,
    write_limits,
)
from loadjudge.gates.calibration_pool import Pool, draw_pool, joined_pools, material, run_of
from loadjudge.gates.calibration_table import limits_table, power_table
from loadjudge.gates.calibration_work import AGAIN, STOCK, Plan, calibrate, changed_parts, engines
from loadjudge.gates.checks import gates_of
from loadjudge.gates.power import FIGURES
from loadjudge.gates.terms import joined, terms
from loadjudge.load.plan import PlayPlan
from loadjudge.load.task import Task, find_task
from loadjudge.paths import data_root
from loadjudge.record.evaluation import Limits
from loadjudge.reference.configuration import EngineConfig
from loadjudge.reference.corpus import corpus_of
from loadjudge.reference.model import Model
from loadjudge.reference.redteam import ATTACKS
from loadjudge.reference.store import model_of
from loadjudge.sessions.model import Session, Turn
from loadjudge.wire.request import Sampling

from .test_power import pool_of

GIVEN = Limits(memory_slack_mib=10)
SAMPLING = {"temperature": 0.7, "top_k": 20, "top_p": 0.95}


@pytest.fixture(scope="module")
def stock(make: SimpleNamespace) -> Pool:
    return pool_of(make, STOCK, 0)


@pytest.fixture(scope="module")
def again(make: SimpleNamespace) -> Pool:
    return pool_of(make, AGAIN, 1)


def test_honest_runs_pass_within_their_own_limits(
    make: SimpleNamespace, stock: Pool, again: Pool
) -> None:
    limits = limits_from(checked_runs(stock, again, GIVEN, 10_000, 10, 0), GIVEN)
    assert limits.memory_slack_mib == 10
    honest = outcome(checked_runs(stock, pool_of(make, "other", 2), limits, 10_000, 40, 0), 10_000)
    assert honest.failed == 0
    assert honest.inconclusive <= 2
    fewer = outcome(checked_runs(stock, again, limits, 1_000, 20, 0), 1_000)
    assert (fewer.failed, fewer.inconclusive) == (0, 20)


def test_an_attack_fails_at_the_first_size_that_is_enough(
    make: SimpleNamespace, stock: Pool, again: Pool
) -> None:
    limits = limits_from(checked_runs(stock, again, GIVEN, 10_000, 10, 0), GIVEN)
    hot = pool_of(make, "hot", 3, simulate.tempered(1.5))
    enough, at = caught_at(stock, hot, limits, (250, 4000, 16_000), 20, 0)
    assert enough
    assert at.tokens < 16_000
    assert at.failed >= 19
    assert set(at.caught_by) & {"likelihood", "argmax", "ranks"}
    enough, at = caught_at(stock, again, limits, (250, 4000), 20, 0)
    assert not enough
    assert (at.tokens, at.runs, at.failed) == (4000, 4, 0)


def test_excess_is_known_better_than_plain(stock: Pool, again: Pool) -> None:
    errors = errors_of(checked_runs(stock, again, GIVEN, 10_000, 10, 0))
    assert set(errors) == {"likelihood", "argmax"}
    for e in errors.values():
        assert e.zero < e.excess < e.plain


def test_p_values_of_ranks_are_uniform_under_honesty(stock: Pool, again: Pool) -> None:
    assert min(uniformity(stock, again, 500, 200, 0).values()) > 0.01


@pytest.mark.parametrize(
    ("value", "rounded"), [(0.01234, 0.013), (0.1, 0.1), (1.01, 1.1), (9.91, 10.0)]
)
def test_limits_are_rounded_up_to_two_digits(value: float, rounded: float) -> None:
    assert rounded_up(value) == rounded


# --- drawn by the engine


def _session(n: int) -> Session:
    said = (f"When does boat {n} leave on Monday?", f"And the way back of boat {n}?")
    turns = tuple(Turn(({"role": "user", "content": text},)) for text in said)
    return Session(f"s{n}", "chat", turns)


@pytest.fixture(scope="module")
def model() -> Model:
    replies = ("It leaves from the old pier at {}.", "The last boat back leaves at {}.")
    documents = [
        {
            "messages": [
                message
                for turn, reply in zip(_session(n).turns, replies, strict=True)
                for message in (
                    *turn.messages,
                    {"role": "assistant", "content": reply.format(n % 12)},
                )
            ]
        }
        for n in range(40)
    ]
    return model_of(corpus_of(documents))


@pytest.fixture(scope="module")
def task() -> Task:
    return Task.model_validate(
        {
            "name": "small",
            "sessions": {"dev": []},
            "sampling": SAMPLING,
            "max_tokens": 40,
            "greedy": {"sessions": 3, "max_tokens": 20},
            "workloads": {
                "solo": {"lanes": 1, "sessions": 4},
                "busy": {"lanes": "kv", "sessions": 12},
            },
        }
    )


_TEXT = "When does boat 7 leave on Monday? It leaves from the old pier at 7."


def _pool(name: str, config: EngineConfig, model: Model, task: Task, seed: int = 0) -> Pool:
    of = material(task, [_session(n) for n in range(20)], {"t": model.tokenizer.encode(_TEXT)})
    return draw_pool(name, config, model, of, range(3), seed)


def test_scores_from_the_top_k_are_those_of_the_whole_distribution(model: Model) -> None:
    sampling = Sampling(**SAMPLING)  # type: ignore[arg-type]
    place = Place(PlayPlan(_session(3), "s3#0", True), "solo")
    (played,) = draw(EngineConfig("ngram"), model, [place], Sheet(1, sampling, 40, 0))
    for turn, found in zip(played.record.turns, played.terms, strict=True):
        assert turn.source == "ids"
        prompt, reply = list(turn.prompt_ids or ()), list(turn.token_ids or ())
        with np.errstate(divide="ignore"):
            whole = joined(
                [
                    terms(np.maximum(np.log(p.astype(float)), -9999.0), None,
                          [*prompt, *reply][at : at + len(p)], sampling, ENDS)
                    for at, p in model.score([*prompt, *reply], len(prompt))
                ]
            )  # fmt: skip
        again = score(model, turn, sampling)
        for name in ("logp", "expected", "variance", "q", "above", "q_end", "is_first"):
            assert getattr(found, name) == pytest.approx(getattr(whole, name), abs=1e-9)
            assert (getattr(found, name) == getattr(again, name)).all()


def test_a_drawn_run_has_all_that_the_checks_ask_for(model: Model, task: Task) -> None:
    stock = _pool(STOCK, EngineConfig(), model, task)
    ngram = _pool("ngram", EngineConfig("ngram"), model, task, 1)
    assert [(r.workload, r.session, r.number) for r in stock.replies] == [
        (r.workload, r.session, r.number) for r in ngram.replies
    ]
    every = np.arange(len(stock.replies))
    gates = gates_of(run_of(stock, ngram, every), task.limits, 0).gates
    measured = {name for name, gate in gates.items() if gate.figure is not None}
    assert measured >= {"memory", "fidelity", "likelihood", "argmax", "agreement", "lengths"}
    assert measured >= {"support", "ranks", "integrity"}
    assert gates["integrity"].verdict == "pass"
    assert gates["agreement"].figure == 1.0


@pytest.mark.parametrize(
    ("attack", "gate"),
    [
        ("int4", "fidelity"),
        ("inflated", "integrity"),
        ("inflated-ids", "integrity"),
        ("memory", "memory"),
        ("swapped", "fidelity"),
    ],
)
def test_gates_that_are_exact_catch_their_attacks(
    attack: str, gate: str, model: Model, task: Task
) -> None:
    limits = Limits(memory_slack_mib=256, fidelity_ceiling=1e-6)
    stock = _pool(STOCK, EngineConfig(), model, task)
    strength = 2 if attack == "inflated-ids" else None
    cheat = _pool(attack, EngineConfig("ngram", attack=attack, strength=strength), model, task, 1)
    every = np.arange(len(stock.replies))
    assert gates_of(run_of(stock, cheat, every), limits, 0).gates[gate].verdict == "fail"


def test_pools_of_later_passes_join_on(model: Model, task: Task) -> None:
    stock = _pool(STOCK, EngineConfig(), model, task)
    both = joined_pools([stock, stock])
    assert len(both.replies) == 2 * len(stock.replies)
    assert both.starts[-1] == len(both.terms.logp) == 2 * len(stock.terms.logp)


def test_the_engines_of_a_task_are_those_that_ship_beside_its_stock() -> None:
    found = engines(find_task("reference"))
    assert {STOCK, AGAIN, "ngram", "draft", "redteam-lenient"} <= set(found)
    assert found[STOCK] == found[AGAIN]
    assert found["redteam-lenient"].attack == "lenient"
    with pytest.raises(JudgeError, match="any can't be calibrated"):
        engines(find_task("any"))


# --- files


def test_evidence_is_read_back_and_told(tmp_path: Path, stock: Pool, again: Pool) -> None:
    found = outcome(checked_runs(stock, again, GIVEN, 1_000, 2, 0), 1_000)
    need = {
        f"{figure}, {kind}": Needed(tokens=tokens, measured=kind != "plain")
        for figure in FIGURES
        for kind, tokens in (("plain", 8000), ("excess", 2000), ("zero", 1000))
    }
    need |= {name: Needed(tokens=None, measured=False) for name in ("support", "ranks, uniform")}
    attack = Attacked(does="cheats", means="much", strength=2, pool_tokens=9, mean_reply=3.0,
                      enough=False, outcome=found, needs=need)  # fmt: skip
    evidence = Evidence(task="t", seed=0, look=1, tokens=9, seconds=1.0, cpu_seconds=2.0,
                        limits=GIVEN, stock_tokens=9, mean_reply=3.0, honest={},
                        attacks={"a": attack})  # fmt: skip
    write_evidence(evidence, tmp_path / "evidence.json")
    assert read_evidence(tmp_path / "evidence.json") == evidence
    row = power_table(evidence)[1]
    assert "~8,000" in row
    assert " 8.0 " in row
    assert "not with 1,000" in row
    void = evidence.model_copy(update={"attacks": {"a": attack.model_copy(update={"void": True})}})
    assert "nothing: what it changes the task does not ask for" in power_table(void)[1]
    with pytest.raises(JudgeError, match="no evidence in"):
        read_evidence(tmp_path / "none.json")


def test_limits_are_written_into_the_tasks_table_alone(tmp_path: Path) -> None:
    path = tmp_path / "task.toml"
    path.write_text("a = 1\n\n[limits]\n# Why.\nlength_margin = 0.1\n\n[texts]\ncount = 2\n")
    evidence = Evidence(task="t", seed=0, look=1, tokens=9, seconds=1.0, cpu_seconds=2.0,
                        limits=GIVEN, stock_tokens=9, mean_reply=3.0, honest={},
                        attacks={})  # fmt: skip
    write_limits(path, limits_table(evidence))
    assert path.read_text() == (
        "a = 1\n\n[limits]\n# Why.\nmemory_slack_mib = 10\n\n[texts]\ncount = 2\n"
    )


@pytest.mark.parametrize("name", ["reference", "reference-warm"])
def test_a_tasks_limits_are_those_of_the_evidence_beside_it(name: str) -> None:
    evidence = read_evidence(data_root() / "gates" / name / "evidence.json")
    assert find_task(name).limits.model_dump(exclude_none=True) == evidence.limits.model_dump(
        exclude_none=True
    )
    for honest in evidence.honest.values():
        assert all(o.failed <= 0.01 * o.runs for o in honest.outcomes)
    # Every attack of the red team was tried, and is caught where there is something to catch.
    assert all(a.enough or a.void for a in evidence.attacks.values())
    assert {a.does for a in evidence.attacks.values()} == {a.does for a in ATTACKS.values()}


def _evidence(stock: Pool, again: Pool, **changed: Any) -> Evidence:
    found = outcome(checked_runs(stock, again, GIVEN, 1_000, 2, 0), 1_000)
    attack = Attacked(does="cheats", means="much", strength=2, pool_tokens=9, mean_reply=3.0,
                      enough=False, outcome=found, needs={})  # fmt: skip
    values = {
        "task": "small", "seed": 0, "look": 1, "tokens": 1_000, "seconds": 1.0,
        "cpu_seconds": 2.0, "limits": GIVEN, "stock_tokens": 9, "mean_reply": 3.0, "honest": {},
        "attacks": {"cheat": attack, "other": attack},
    }  # fmt: skip
    return Evidence.model_validate({**values, **changed})


def test_engines_that_are_tried_again_replace_their_rows_alone(stock: Pool, again: Pool) -> None:
    old = _evidence(stock, again)
    new = old.attacks["cheat"].model_copy(update={"enough": True})
    both = with_rows_of(old, _evidence(stock, again, attacks={"cheat": new}, cpu_seconds=0.5))
    assert both.attacks == {"cheat": new, "other": old.attacks["other"]}
    assert both.cpu_seconds == 2.5


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"seed": 1}, "another seed"),
        ({"limits": Limits(memory_slack_mib=11)}, "another limit"),
        ({"task": "large"}, "another task"),
    ],
)
def test_rows_of_other_evidence_are_refused(
    changed: dict[str, Any], said: str, stock: Pool, again: Pool
) -> None:
    with pytest.raises(JudgeError, match=said):
        with_rows_of(_evidence(stock, again), _evidence(stock, again, **changed))


@pytest.mark.parametrize(
    ("task", "attack", "changed"),
    [
        ("reference", "top-k-ignored", {"sampler"}),
        ("reference-warm", "top-k-ignored", set()),
        ("reference-warm", "top-p-ignored", {"sampler"}),
        ("reference", "short", {"sampler"}),
        ("reference", "lenient", {"rules"}),
        ("reference", "honest-when-scored", {"target"}),
        ("reference", "int8", {"target", "told"}),
        ("reference", "inflated", {"report"}),
        ("reference", "memory", {"memory_mib"}),
        ("reference", "window", {"hooks"}),
    ],
)
def test_what_an_attack_changes_of_what_a_task_asks_for(
    task: str, attack: str, changed: set[str]
) -> None:
    assert changed_parts(find_task(task), f"redteam-{attack}") == changed


def test_an_engine_that_does_not_ship_is_named() -> None:
    plan = Plan(task=find_task("reference"), only=("greedy-fist",))
    with pytest.raises(JudgeError, match=r"no engine greedy-fist: its engines are .*greedy-first"):
        calibrate(plan, 1, print)
