"""What users get wrong, and what fails around them: one sentence and the right status."""

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.e2e.conftest import Cli, Engine

Task = Callable[..., Path]


def fails(done: "subprocess.CompletedProcess[str]", status: int, *said: str) -> None:
    assert done.returncode == status, done.stderr
    assert "Traceback" not in done.stderr
    last = [line for line in done.stderr.splitlines() if line.startswith("loadjudge: ")]
    assert len(last) == 1, done.stderr
    for words in said:
        assert words in last[0], last[0]


def judge(cli: Cli, tmp_path: Path, *arguments: object) -> "subprocess.CompletedProcess[str]":
    return cli("judge", "--output", tmp_path / "run", *arguments)


def test_an_endpoint_that_is_not_there(cli: Cli, tmp_path: Path) -> None:
    nowhere = "http://127.0.0.1:9/v1"
    done = judge(cli, tmp_path, "--stock", nowhere, "--candidate", nowhere)
    fails(done, 3, nowhere, "is the server up?")


def test_a_refused_key(cli: Cli, tmp_path: Path, engine: Callable[..., Engine]) -> None:
    locked = engine("--api-key", "secret")
    done = judge(cli, tmp_path, "--stock", locked.url, "--candidate", locked.url)
    fails(done, 3, "refused the key (401)", "OPENAI_API_KEY")


def test_a_model_that_the_endpoint_does_not_have(
    cli: Cli, tmp_path: Path, engine: Callable[..., Engine]
) -> None:
    url = engine().url
    done = judge(cli, tmp_path, "--stock", url, "--candidate", url, "--model", "gpt-oss")
    fails(done, 2, "has no model 'gpt-oss'", "it has reference")


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", ("empty",)),
        (b'{"messages": [{"role": "user", "content": "hi"}]}\n{"messages": [\n', ("line 2",)),
        (b'{"messages": [{"role": "user", "content": "caf\xc3', ("line 1", "UTF-8")),
        (
            b'{"messages": [{"role": "system", "content": "a"}, {"role": "system", '
            b'"content": "b"}, {"role": "user", "content": "c"}]}\n',
            ("line 1", "system"),
        ),
    ],
    ids=["empty", "malformed", "half a character", "two system messages"],
)
def test_a_session_file_at_fault(
    cli: Cli, tmp_path: Path, data: bytes, said: tuple[str, ...]
) -> None:
    file = tmp_path / "sessions.jsonl"
    file.write_bytes(data)
    done = judge(
        cli, tmp_path, "--task", "reference", "--candidate", "servers/reference/ngram",
        "--dataset", file,
    )  # fmt: skip
    fails(done, 3, file.name, *said)


def test_a_task_with_an_unknown_key(cli: Cli, tmp_path: Path, task: Task) -> None:
    path = task("temprature = 1.0")
    done = judge(cli, tmp_path, "--task", path, "--candidate", "servers/reference/ngram")
    fails(done, 3, str(path), "unknown key 'temprature'")


def test_an_output_directory_that_is_not_empty(cli: Cli, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "thesis.txt").write_text("years of work")
    done = judge(cli, tmp_path, "--task", "demo", "--candidate", "servers/reference/ngram")
    fails(done, 2, "is not empty")
    assert (tmp_path / "run" / "thesis.txt").read_text() == "years of work"


def engine_directory(folder: Path, script: str, timeout_s: float = 20) -> Path:
    folder.mkdir()
    (folder / "engine.py").write_text(script)
    (folder / "engine.toml").write_text(
        f"""
[engine]
name = "broken"
family = "reference"
command = ["{{python}}", "engine.py", "{{socket}}"]
ready_timeout_s = {timeout_s}
"""
    )
    return folder


def test_an_engine_that_never_becomes_ready(cli: Cli, tmp_path: Path) -> None:
    broken = engine_directory(
        tmp_path / "broken",
        "import time\nprint('loading the weights', flush=True)\ntime.sleep(60)\n",
        timeout_s=1.5,
    )
    done = judge(cli, tmp_path, "--task", "demo", "--candidate", broken)
    fails(done, 3, "the engine broken was not ready after 1.5 s")
    assert "loading the weights" in done.stderr


def test_an_engine_that_ends_while_it_starts(cli: Cli, tmp_path: Path) -> None:
    broken = engine_directory(tmp_path / "broken", "raise SystemExit('out of memory')")
    done = judge(cli, tmp_path, "--task", "demo", "--candidate", broken)
    fails(done, 3, "ended while it started (exit status 1)")
    assert "out of memory" in done.stderr


DIES = """
import os, sys, threading
from loadjudge.reference.__main__ import main
from loadjudge.reference import generation

def wait_and_die():
    # Dies once a few replies have been logged: in the middle of a pass.
    import time
    while not os.path.exists("seen") or len(open("seen").readlines()) < 12:
        time.sleep(0.02)
    print("CUDA error: an illegal memory access was encountered", flush=True)
    os._exit(7)

threading.Thread(target=wait_and_die, daemon=True).start()
main(["--socket", sys.argv[1], "--request-log", "seen"])
"""


def test_an_engine_that_dies_in_the_middle(cli: Cli, tmp_path: Path, task: Task) -> None:
    broken = engine_directory(tmp_path / "broken", DIES)
    path = task(workloads="[workloads.team]\nlanes = 4\nsessions = 8\nramp_s = 0.1")
    done = judge(cli, tmp_path, "--task", path, "--candidate", broken)
    fails(done, 4, "the engine broken died in the middle of the run (exit status 7)")
    assert "illegal memory access" in done.stderr
    record = (tmp_path / "run" / "evaluation.json").read_text()
    assert '"verdict": "invalid"' in record


STALLS = """
import asyncio, sys
from aiohttp import web

async def chat(request):
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    await answer.write(b'data: {"choices":[{"delta":{"role":"assistant","content":""}}]}\\n\\n')
    await asyncio.sleep(600)

async def models(request):
    return web.json_response({"data": [{"id": "m"}]})

async def health(request):
    return web.Response()

app = web.Application()
app.router.add_post("/v1/chat/completions", chat)
app.router.add_get("/v1/models", models)
app.router.add_get("/health", health)
web.run_app(app, path=sys.argv[1], print=None)
"""


def test_an_endpoint_that_streams_nothing(cli: Cli, tmp_path: Path, task: Task) -> None:
    silent = engine_directory(tmp_path / "silent", STALLS)
    path = task(greedy=0)
    done = judge(
        cli, tmp_path, "--task", path, "--stock", silent, "--candidate", silent,
        "--idle-timeout", 1,
    )  # fmt: skip
    fails(done, 4, "stalled", "1 s", "session ")


def test_a_full_disk_while_logging(cli: Cli, tmp_path: Path, task: Task) -> None:
    small = tmp_path / "small"
    small.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=48k", "tmpfs", str(small)],
        capture_output=True,
        check=False,
    )
    if mounted.returncode:
        pytest.skip("mounting a small file system needs root")
    try:
        done = cli(
            "judge", "--output", small / "run", "--task", task(), "--candidate",
            "servers/reference/ngram",
        )  # fmt: skip
        fails(done, 4, "can't be written: no space left on device", "--resume")
    finally:
        subprocess.run(["umount", str(small)], check=True)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("judge",), "--candidate"),
        (("judge", "--candidate", "nowhere/at-all"), "--stock"),
        (("judge", "--candidate", "x", "--stock", "y", "--extra-body", "{"), "--extra-body"),
        (("judge", "--candidate", "x", "--stock", "y", "--header", "X"), "NAME=VALUE"),
        (("judge", "--candidate", "x", "--stock", "y", "--concurrency", "1,many"), "many"),
        (("judge", "--candidate", "x", "--stock", "y", "--history", "none"), "--history"),
    ],
)
def test_wrong_usage(cli: Cli, arguments: tuple[str, ...], said: str, tmp_path: Path) -> None:
    done = cli(*arguments)
    assert done.returncode in (2, 3)
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_report_of_what_is_no_run(cli: Cli, tmp_path: Path) -> None:
    fails(cli("report", tmp_path), 3, "is not a run directory")
    file = tmp_path / "record.json"
    file.write_text(
        '{"ratios": {}, "specscore": 1, "limits": {}, "reason": null, "score": 1, "scores": 2}'
    )
    fails(cli("report", file), 3, "scores")
