"""loadjudge sessions: what its commands print and how they exit."""

import subprocess
import sys
from pathlib import Path

import orjson
import pytest
from typer.testing import CliRunner

from loadjudge.cli.sessions import app
from loadjudge.errors import JudgeError
from loadjudge.sessions.read import read_sessions

SEED = "a seed for tests, not a secret"
run = CliRunner().invoke


@pytest.fixture
def good(tmp_path: Path) -> Path:
    path = tmp_path / "good.jsonl"
    path.write_bytes(b'{"question_id": 1, "turns": ["a", "b"]}\n')
    return path


def test_check_prints_one_line_a_file_and_exits_with_3_on_errors(good: Path) -> None:
    done = run(app, ["check", str(good)])
    assert (done.exit_code, done.stdout) == (
        0,
        f"{good}: spec_bench, 1 sessions, 2 turns, 0 warnings\n",
    )
    bad = good.with_name("bad.jsonl")
    bad.write_bytes(b'{"turns": [}\n')
    done = run(app, ["check", str(bad), str(good)])
    assert done.exit_code == 3
    first, second = done.stdout.splitlines()
    assert "bad.jsonl, line 1, column 12: malformed JSON" in first
    assert second.endswith("0 warnings")


def test_check_as_json_and_with_many_warnings(tmp_path: Path) -> None:
    path = tmp_path / "warned.jsonl"
    messages = [{"role": "user", "content": " "}] * 9
    path.write_bytes(orjson.dumps({"id": "s", "messages": messages, "model": "m"}))
    done = run(app, ["check", "--json", str(path)])
    found = orjson.loads(done.stdout)
    assert (found["ok"], found["format"], found["turns"]) == (True, "openai", 9)
    assert len(found["warnings"]) == 10
    done = run(app, ["check", str(path)])
    assert len(done.stdout.splitlines()) == 1
    assert "10 warnings; " in done.stdout
    assert "and 5 more warnings" in done.stdout


def test_convert_writes_the_native_format_to_a_file_or_stdout(good: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    assert run(app, ["convert", str(good), "-o", str(output)]).exit_code == 0
    assert read_sessions(output, "openai") == read_sessions(good)
    done = run(app, ["convert", str(good), "-o", "-"])
    assert done.stdout_bytes == output.read_bytes()


def test_convert_takes_the_format_and_leaves_errors_to_the_top(good: Path) -> None:
    done = run(app, ["convert", str(good), "-o", "-", "--dataset-format", "sharegpt"])
    assert isinstance(done.exception, JudgeError)
    assert "needs a list under conversations" in done.exception.sentence


def test_convert_says_where_it_cannot_write(good: Path, tmp_path: Path) -> None:
    done = run(app, ["convert", str(good), "-o", str(tmp_path / "no" / "out.jsonl")])
    assert isinstance(done.exception, JudgeError)
    assert "cannot be written" in done.exception.sentence


def test_stats_as_text_and_json(good: Path) -> None:
    done = run(app, ["stats", str(good)])
    assert done.exit_code == 0
    assert "estimate" in done.stdout
    found = orjson.loads(run(app, ["stats", "--json", str(good)]).stdout)
    assert found["turns_per_session"] == {"min": 2, "median": 2, "p90": 2, "max": 2}


def test_generate_never_prints_the_seed(tmp_path: Path) -> None:
    output = tmp_path / "hidden.jsonl"
    arguments = ["generate", "--num-sessions", "4", "--kind", "chat", "-o", str(output)]
    done = run(app, [*arguments, "--seed", SEED])
    assert done.exit_code == 0
    assert "4 sessions" in done.stderr
    assert SEED not in done.output
    assert SEED.encode() not in output.read_bytes()
    assert run(app, ["check", str(output)]).exit_code == 0
    first = output.read_bytes()
    assert run(app, arguments, env={"LOADJUDGE_SESSIONS_SEED": SEED}).exit_code == 0
    assert output.read_bytes() == first
    assert "could be guessed" in run(app, [*arguments, "--seed", "short"]).stderr


def test_the_module_imports_nothing_heavy() -> None:
    code = (
        "import sys, typer; before = set(sys.modules); import loadjudge.cli.sessions; "
        "print([m for m in sorted(set(sys.modules) - before) if not m.startswith('loadjudge')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True)
    assert done.stdout.strip() == "[]"
