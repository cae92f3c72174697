"""Under the rule decide the judge plays on while a gate is undecided, and says when it stops."""

from collections.abc import Callable
from pathlib import Path

import pytest

from loadjudge.record.evaluation import read_evaluation
from loadjudge.record.run import read_run
from tests.e2e.conftest import Cli

WORKLOADS = "[workloads.team]\nlanes = 4\nsessions = 8\nramp_s = 0.1"


@pytest.fixture
def engines(tmp_path: Path) -> list[str]:
    """Embedded engines on a quick device: a pass takes a second."""
    flags = []
    # With the same seeds two stock engines would say the same, word by word.
    for arm, speculate in (("stock", "none"), ("candidate", "ngram")):
        folder = tmp_path / arm
        folder.mkdir()
        (folder / "engine.toml").write_text(
            f"""
[engine]
name = "{arm}"
family = "reference"
command = ["{{python}}", "-m", "loadjudge.reference", "--socket", "{{socket}}",
    "--cost.weights_s", "0.004", "--speculate", "{speculate}"]
"""
        )
        flags += [f"--{arm}", str(folder)]
    return flags


def write(task: Callable[..., Path], limits: str) -> Path:
    path = task("max_turns = 1", f"{WORKLOADS}\n[limits]\n{limits}", scoring=100)
    path.write_text(path.read_text().replace("max_tokens = 24", "max_tokens = 96"))
    return path


def test_an_undecided_gate_gets_more_passes_within_the_budget(
    cli: Cli, tmp_path: Path, task: Callable[..., Path], engines: list[str]
) -> None:
    path = write(task, "length_margin = 0.05")
    done = cli("judge", "--task", path, *engines, "-o", tmp_path / "run", "--budget", "4000")
    assert "Traceback" not in done.stderr, done.stderr
    run = read_run(tmp_path / "run")
    record = read_evaluation(tmp_path / "run" / "evaluation.json")
    assert record.gates is not None
    if record.invalid:
        pytest.skip(f"this machine is too busy to time anything: {record.invalid[0]}")
    assert run.extended["team"] >= 1
    assert len(run.passes) == 2 * (1 + run.extended["team"])
    assert run.scored
    assert record.looks is not None
    assert record.looks.look >= 2
    assert record.looks.level > 0.95  # the error is spent over the looks
    assert any("decided: " in note for note in record.notes or ())
    assert done.returncode in (0, 5)
    assert (record.gates["lengths"].verdict == "inconclusive") == (done.returncode == 5)


def test_without_a_budget_there_is_one_look_at_95_percent(
    cli: Cli, tmp_path: Path, task: Callable[..., Path], engines: list[str]
) -> None:
    path = write(task, "length_margin = 0.2")
    done = cli("judge", "--task", path, *engines, "-o", tmp_path / "run", "--budget", "0")
    run = read_run(tmp_path / "run")
    assert run.complete, done.stderr
    assert not run.extended
    assert read_evaluation(tmp_path / "run" / "evaluation.json").looks is None
    assert done.returncode in (4, 5)
