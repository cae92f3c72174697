"""The simulation: repeatable, conserving, and equal to the closed form where there is one."""

from dataclasses import replace

import pytest

from loadjudge.reference.configuration import EngineConfig
from loadjudge.reference.model import Model
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.truth import (
    expected_speedup,
    simulate_pass,
    solo_speed,
    tokens_per_step,
)
from loadjudge.sessions.model import Session, Turn

from .conftest import TOOLS

SAMPLING = Sampling(0.7, 20, 0.95)
STOCK, NGRAM, DRAFT = EngineConfig(), EngineConfig("ngram"), EngineConfig("draft")


def _session(n: int) -> Session:
    asked = [f"When does boat {n} leave on Monday?", "And from where?", "And the way back?"]
    turns = tuple(
        Turn(({"role": "user", "content": text},), wait_s=0.5 * (n % 2)) for text in asked
    )
    return Session(f"s{n}", "chat", turns)


SESSIONS = [_session(n) for n in range(8)]


@pytest.mark.parametrize("config", [STOCK, NGRAM, DRAFT], ids=lambda c: c.speculate)
def test_the_closed_form_agrees_at_one_lane(model: Model, config: EngineConfig) -> None:
    truth = simulate_pass(config, SESSIONS, 1, 3, SAMPLING, 256, model=model)
    assert len(truth.turns) == 24
    closed = solo_speed(config, truth.turns, tokens_per_step(truth.turns))
    assert closed == pytest.approx(truth.speed, rel=0.02)


def test_equal_seeds_give_equal_figures(model: Model) -> None:
    runs = [simulate_pass(NGRAM, SESSIONS, 3, s, SAMPLING, 256, model=model) for s in (1, 1, 2)]
    assert runs[0] == runs[1] != runs[2]


def test_stock_against_stock_is_one(model: Model) -> None:
    truth = expected_speedup(STOCK, STOCK, SESSIONS[:4], 2, [1, 2], SAMPLING, 256, model=model)
    assert (truth.ratio, truth.se) == (1.0, 0.0)


def test_speculation_helps_one_lane_most(model: Model) -> None:
    solo, team = (
        expected_speedup(STOCK, NGRAM, SESSIONS[:6], lanes, [1, 2], SAMPLING, 256, model=model)
        for lanes in (1, 12)
    )
    assert solo.ratio > 1.3
    assert solo.ratio > team.ratio + 0.1
    assert 0 < solo.se < 0.3


def test_scripted_waits_are_not_lane_time(model: Model) -> None:
    waiting = [
        replace(s, turns=tuple(replace(t, wait_s=9.0) for t in s.turns)) for s in SESSIONS[:4]
    ]
    eager = [replace(s, turns=tuple(replace(t, wait_s=0.0) for t in s.turns)) for s in SESSIONS[:4]]
    a, b = (simulate_pass(STOCK, x, 1, 1, SAMPLING, 256, model=model) for x in (waiting, eager))
    assert a.lane_seconds == pytest.approx(b.lane_seconds, rel=1e-6)


def test_a_tool_result_without_a_call_is_the_users(model: Model) -> None:
    turns = (
        Turn(({"role": "user", "content": "Where is parcel P-3?"},)),
        Turn(({"role": "tool", "content": "P-3: at the old pier", "tool_call_id": "x"},)),
    )
    sessions = [Session(f"a{n}", "agent", turns, tuple(TOOLS)) for n in range(3)]
    truth = simulate_pass(STOCK, sessions, 2, 1, SAMPLING, 64, model=model)
    assert len(truth.turns) == 6
