"""The judge on vLLM: what it can do, who cheats, who breaks, and what is left of one that dies."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.http import PlainClient
from loadjudge.record.evaluation import read_evaluation
from loadjudge.record.log import EVENTS
from loadjudge.record.run import read_run
from loadjudge.servers import keeper
from loadjudge.servers.endpoint import ask_abilities
from loadjudge.servers.kit import Kit
from loadjudge.wire.request import Sampling, chat_body
from tests.engines.conftest import ENGINES, PATIENCE_S, TASK, Cli

pytestmark = pytest.mark.engines

PATIENT = ("--idle-timeout", str(PATIENCE_S))  # others may use these cores


def test_what_is_installed_is_kept(kit: Kit, cli: Cli) -> None:
    done = cli("servers", "install", TASK)
    assert done.returncode == 0, done.stderr
    assert f"all that {TASK} needs is there" in done.stdout
    assert "What is the capital of France? The capital of France is Paris" in done.stdout


async def test_vllm_can_do_all_that_the_judge_asks_for(stock: str) -> None:
    async with PlainClient(stock, timeout_s=PATIENCE_S) as http:
        found = await ask_abilities(http, None, None)
        assert (found.model, found.family, found.max_model_len) == (TASK, "vllm", 1024)
        assert found.token_ids
        assert found.tokenize
        assert found.detokenize
        assert found.prompt_logprobs
        assert found.prefix_reset
        assert found.kv_tokens == 40 * 32  # small enough for two cores to fill
        patience = Timeouts(first_byte_s=PATIENCE_S, idle_s=PATIENCE_S)
        async with LoadClient(stock, timeouts=patience) as client:
            body = chat_body(
                TASK,
                [{"role": "user", "content": "What is the capital of France?"}],
                sampling=Sampling(temperature=0),
                max_tokens=24,
                want_ids=True,
            )
            reply = (await client.chat(body)).reply
        assert reply.content == "The capital of France is Paris."
        assert reply.finish_reason == "stop"
        assert reply.token_ids is not None
        assert reply.prompt_token_ids
        # The end token is among the ids, and adds nothing to the text.
        assert await http.detokenize(TASK, reply.token_ids[:-1]) == reply.content
        assert reply.usage is not None
        assert reply.usage.completion_tokens == len(reply.token_ids)


def test_a_quantised_target_fails_fixed_texts(
    stock: str, cli: Cli, task: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    path = task("fidelity_ceiling = 0.002", texts=3)
    done = cli(
        "judge", "--task", path, "--stock", stock, "--candidate", ENGINES / "int4", "-o", run
    )
    assert done.returncode == 1, done.stderr
    gates = read_evaluation(run / "evaluation.json").gates or {}
    assert gates["fidelity"].verdict == "fail"
    assert (gates["fidelity"].figure or 0) > 0.05


def test_the_unpatched_engine_breaks_and_the_judge_says_how(
    stock: str, cli: Cli, task: Callable[..., Path], tmp_path: Path
) -> None:
    """vLLM issue 55005: the sampler reads memory that nobody wrote. What it makes of that differs
    from run to run: the engine dies of it, or its replies fail a gate."""
    run = tmp_path / "run"
    path = task("excess_likelihood_bound = 0.5", tokens=300, sessions=6)
    engine = ENGINES / "ngram-unpatched"
    arms = ("--stock", stock, "--candidate", engine)
    done = cli("judge", "--task", path, *arms, "-o", run, *PATIENT)
    assert done.returncode in (1, 4), done.stderr
    if done.returncode == 1:
        gates = read_evaluation(run / "evaluation.json").gates or {}
        assert "fail" in {g.verdict for g in gates.values()}
    else:
        said = next(line for line in done.stderr.splitlines() if line.startswith("loadjudge: "))
        assert "vLLM 0.32.0 n-gram k=4 unpatched died in the middle of the run" in said
        print(said)
        assert re.search(r"\w+Error: ", said)


def runs(process: psutil.Process) -> bool:
    """A zombie does not: it has ended, and the init of a container may never collect it."""
    with suppress(psutil.NoSuchProcess):
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    return False


def test_a_worker_that_is_killed_ends_the_run_and_leaves_nothing(
    kit: Kit, cli: Cli, task: Callable[..., Path], tmp_path: Path
) -> None:
    run = tmp_path / "run"
    judge = subprocess.Popen(
        [
            *(sys.executable, "-m", "loadjudge", "judge", "--task", str(task())),
            *("--candidate", str(ENGINES / "ngram"), "--output", str(run), *PATIENT),
        ],
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert judge.stderr is not None
    said = ""
    log = run / EVENTS
    while not (log.exists() and b'"event":"pass"' in log.read_bytes()):
        line = judge.stderr.readline()  # a line comes at the latest when the pass is over
        assert line, said
        said += line
    tree = psutil.Process(judge.pid).children(recursive=True)
    workers = [p for p in tree if "VLLM::Worker" in " ".join(p.cmdline())]
    sockets = {c.laddr for p in tree for c in p.net_connections("unix") if c.laddr}
    files = [Path(s) for s in sockets if Path(s).exists()]
    shared = keeper.shared_of([p.pid for p in tree])
    assert len(workers) == 2
    assert files
    assert shared
    os.kill(workers[0].pid, signal.SIGKILL)
    _, rest = judge.communicate(timeout=PATIENCE_S)
    assert judge.returncode == 4, said + rest
    assert re.search(r"loadjudge: the engine vLLM .* died in the middle of the run", rest)
    assert "died unexpectedly" in rest  # the log's tail has vLLM's own word for it
    assert "Traceback" not in rest.split("its log ends")[0]
    assert [p for p in tree if runs(p)] == []
    assert [f for f in files if f.exists()] == []
    assert [s for s in shared if Path(s).exists()] == []
    done = cli("judge", "--resume", run)
    assert done.returncode in (0, 1, 5), done.stderr
    record = read_run(run)
    assert record.complete
    assert sorted(p.slot for p in record.passes) == [0, 1]
    candidate = next(p for p in record.passes if p.arm == "candidate")
    assert candidate.counters is not None
    assert candidate.counters.get("drafts", 0) > 0
