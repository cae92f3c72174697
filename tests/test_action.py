"""The GitHub action: its references hold, and its steps do what they say when bash runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[1]
REFERENCE = re.compile(r"\$\{\{\s*(.*?)\s*\}\}")
ENGINE = """
[engine]
name = "{name}"
family = "reference"
command = ["{{python}}", "-m", "loadjudge.reference", "--socket", "{{socket}}", "--clock", "off"]
"""
TASK = """
max_tokens = 8
max_turns = 1
passes = 1
rule = "reject"
[sessions]
dev = ["sessions/chat.jsonl"]
[workloads.solo]
lanes = 1
sessions = 2
[texts]
count = 1
[greedy]
sessions = 1
max_tokens = 4
[scoring]
tokens = 0
"""


@pytest.fixture(scope="module")
def action() -> dict[str, Any]:
    loaded = yaml.safe_load((ROOT / "action.yml").read_text("utf-8"))
    assert isinstance(loaded, dict)
    return loaded


def test_it_is_as_github_wants_it(action: dict[str, Any]) -> None:
    assert set(action) <= {"name", "description", "author", "branding", "inputs", "outputs", "runs"}
    assert action["runs"]["using"] == "composite"
    for table in (action["inputs"], action["outputs"]):
        assert all(entry["description"] for entry in table.values())
    assert all(isinstance(i.get("default", ""), str) for i in action["inputs"].values())
    for step in action["runs"]["steps"]:
        assert set(step) <= {"name", "id", "if", "uses", "with", "shell", "env", "run"}
        assert ("run" in step) != ("uses" in step)
        assert step.get("shell") == ("bash" if "run" in step else None)


def test_everything_it_refers_to_is_there(action: dict[str, Any]) -> None:
    ids = {step["id"]: step for step in action["runs"]["steps"] if "id" in step}
    text = (ROOT / "action.yml").read_text("utf-8")
    for expression in REFERENCE.findall(text):
        for name in re.findall(r"inputs\.([\w-]+)", expression):
            assert name in action["inputs"], expression
        for step, output in re.findall(r"steps\.([\w-]+)\.outputs\.([\w-]+)", expression):
            assert f"{output}=" in ids[step]["run"], expression
    used = set(re.findall(r"inputs\.([\w-]+)", text))
    assert used == set(action["inputs"])


def test_what_users_write_never_becomes_part_of_a_script(action: dict[str, Any]) -> None:
    for step in action["runs"]["steps"]:
        assert not REFERENCE.search(step.get("run", "")), step.get("name")


class Job:
    """Runs the action's own steps as a runner does: bash -e, files for outputs and the summary."""

    def __init__(self, action: dict[str, Any], folder: Path, **inputs: str) -> None:
        self.steps = {s.get("name"): s for s in action["runs"]["steps"] if "run" in s}
        self.ids = {s["id"]: s.get("name") for s in action["runs"]["steps"] if "id" in s}
        self.inputs = {n: i.get("default", "") for n, i in action["inputs"].items()} | {
            name.replace("_", "-"): value for name, value in inputs.items()
        }
        self.folder = folder
        self.outputs: dict[str, dict[str, str]] = {}
        self.summary = folder / "summary.md"

    def run(self, name: str) -> "subprocess.CompletedProcess[str]":
        step = self.steps[name]
        script, outputs = self.folder / "step.sh", self.folder / "outputs"
        script.write_text(step["run"])
        outputs.write_text("")
        env = {k: REFERENCE.sub(self._value, str(v)) for k, v in step.get("env", {}).items()}
        done = subprocess.run(
            ["bash", "--noprofile", "--norc", "-e", "-o", "pipefail", str(script)],
            cwd=self.folder, capture_output=True, text=True, timeout=300, check=False,
            env={**os.environ, **env, "GITHUB_OUTPUT": str(outputs),
                 "GITHUB_STEP_SUMMARY": str(self.summary)},
        )  # fmt: skip
        lines = [line.partition("=") for line in outputs.read_text().splitlines()]
        self.outputs[step.get("id", name)] = {key: value for key, _, value in lines}
        return done

    def _value(self, match: "re.Match[str]") -> str:
        scope, _, rest = match[1].partition(".")
        if scope == "inputs":
            return self.inputs[rest]
        if scope == "steps":
            step, _, output = rest.partition(".outputs.")
            return self.outputs.get(step, {}).get(output, "")
        assert match[1] == "github.action_path"
        return str(ROOT)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A job's working folder, with two engines and a task; ``python`` is this one."""
    for name in ("stock", "candidate"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "engine.toml").write_text(ENGINE.format(name=name))
    (tmp_path / "my task.toml").write_text(TASK)
    (tmp_path / "bin").mkdir()
    python = tmp_path / "bin" / "python"
    python.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    python.chmod(0o755)
    monkeypatch.setenv("PATH", f"{python.parent}:{os.environ['PATH']}")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    return tmp_path


def test_a_job_judges_compares_and_ends_by_the_verdict(
    action: dict[str, Any], folder: Path
) -> None:
    job = Job(
        action, folder, stock="stock", candidate="candidate", task="my task.toml",
        arguments="--seed 3 --header 'X-Test=a b'", base="loadjudge-run", max_regression="5%",
    )  # fmt: skip
    done = job.run("Run loadjudge")
    assert done.returncode == 0, done.stderr  # the status is kept until all is uploaded
    outputs = job.outputs["run"]
    record = (folder / "loadjudge-run" / "evaluation.json").read_text()
    assert f'"verdict": "{outputs["verdict"]}"' in record
    assert '"seed": 3' in record
    assert (folder / outputs["report"]).is_file()
    assert (folder / outputs["junit"]).read_text().startswith("<?xml")
    assert outputs["verdict"].capitalize() in job.summary.read_text()
    compared = job.run("Compare with the base")
    assert compared.returncode == 0, compared.stderr
    # A run against itself: not worse, unless it can't be trusted or is too short to tell.
    expected = {"0", "5"} if outputs["verdict"] != "invalid" else {"4"}
    assert job.outputs["compare"]["status"] in expected
    ended = job.run("Verdict").returncode
    statuses = [int(outputs["status"]), int(job.outputs["compare"]["status"])]
    assert ended == next((s for s in statuses if s), 0)


def test_a_job_that_cannot_start_fails_and_leaves_its_junit(
    action: dict[str, Any], folder: Path
) -> None:
    job = Job(action, folder, stock="http://127.0.0.1:9", candidate="candidate")
    assert job.run("Run loadjudge").returncode == 0
    assert job.outputs["run"]["status"] == "3"
    assert "is the server up?" in (folder / job.outputs["run"]["junit"]).read_text()
    assert job.run("Verdict").returncode == 3


@pytest.mark.parametrize(
    ("status", "regression", "allowed", "ends"),
    [("0", "", "false", 0), ("0", "1", "false", 1), ("5", "", "false", 5), ("5", "", "true", 0),
     ("5", "1", "true", 1), ("1", "0", "true", 1), ("0", "5", "true", 0), ("", "", "false", 1)],
)  # fmt: skip
def test_the_job_ends_by_its_statuses(
    action: dict[str, Any], folder: Path, status: str, regression: str, allowed: str, ends: int
) -> None:
    job = Job(action, folder, allow_inconclusive=allowed)
    job.outputs = {"run": {"status": status}, "compare": {"status": regression}}
    assert job.run("Verdict").returncode == ends


def test_the_documented_jobs_are_yaml_and_name_real_inputs(action: dict[str, Any]) -> None:
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "docs/ci.md").read_text(), re.DOTALL)
    github, gitlab = map(yaml.safe_load, blocks)
    step = next(s for s in github["jobs"]["judge"]["steps"] if s.get("id") == "judge")
    assert set(step["with"]) <= set(action["inputs"])
    assert gitlab["judge"]["artifacts"]["reports"]["junit"] == "junit.xml"
