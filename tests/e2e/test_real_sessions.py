"""Real sessions play to the end on both arms, and the engines' own logs prove how."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import orjson
import pytest

from loadjudge.record.run import read_run
from tests.e2e.conftest import SHARED, Cli, Engine

FILES = {
    "mt_bench.spec_bench.jsonl": (60, 120),
    "tau_bench_airline.openai.jsonl": (20, 265),
}


def requests(engine: Engine) -> list[dict[str, Any]]:
    """What the engine logged of the pass: sampled chat requests, in the order of their ends."""
    lines = map(orjson.loads, engine.log.read_bytes().splitlines())
    return [r for r in lines if r["messages"] is not None and r["finish_reason"] != "abort"]


@pytest.mark.parametrize("name", FILES)
def test_later_requests_carry_the_models_own_replies(
    name: str, cli: Cli, engine: Callable[..., Engine], tmp_path: Path, task: Callable[..., Path]
) -> None:
    file = SHARED / "sessions" / name
    if not file.exists():
        pytest.skip("the shared session files are not here")
    sessions, turns = FILES[name]
    # Lanes beyond the sessions would only play fillers.
    path = task(
        workloads=f"[workloads.team]\nlanes = 8\nsessions = {sessions}\nramp_s = 0", greedy=0
    )
    arms = {
        "stock": engine("--clock", "off"),
        "candidate": engine("--clock", "off", "--speculate", "ngram"),
    }
    done = cli(
        "judge", "--task", path, "--dataset", file, "--output", tmp_path / "run",
        "--stock", arms["stock"].url, "--candidate", arms["candidate"].url, timeout_s=300,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    run = read_run(tmp_path / "run")
    assert run.complete
    for one in run.passes:
        assert len(one.measured) == sessions
        assert {p.outcome for p in one.measured} == {"done"}
        assert sum(len(p.turns) for p in one.measured) == turns
        _prove(one.measured, requests(arms[one.arm]))


def _prove(plays: tuple[Any, ...], logged: list[dict[str, Any]]) -> None:
    """Every turn's request, as the server saw it, holds the server's own earlier replies."""
    by_ids = {(tuple(r["token_ids"]), r["prompt_tokens"]): r for r in logged}
    answered = 0
    for play in plays:
        earlier: list[dict[str, Any]] = []
        for turn in play.turns:
            seen = by_ids[turn.token_ids, turn.prompt_tokens]
            assert seen["content"] == turn.content
            said = [m for m in seen["messages"] if m["role"] == "assistant"]
            assert [m.get("content") or "" for m in said] == [r["content"] for r in earlier]
            calls = [c["id"] for m in said for c in m.get("tool_calls") or ()]
            assert calls == [c["id"] for r in earlier for c in r["tool_calls"]]
            results = [m["tool_call_id"] for m in seen["messages"] if m["role"] == "tool"]
            assert results == calls[: len(results)]
            answered += len(results)
            earlier.append(seen)
    if any(t.tool_calls for p in plays for t in p.turns):
        assert answered > 0
