"""Task files: what they hold, and which mistake is named."""

from pathlib import Path

import pytest

from loadjudge.errors import JudgeError
from loadjudge.load.task import find_task, read_task
from loadjudge.paths import data_root

GOOD = """
[sessions]
dev = ["a.jsonl"]
[workloads.solo]
lanes = 1
sessions = 8
"""


def written(tmp_path: Path, text: str) -> Path:
    folder = tmp_path / "mine"
    folder.mkdir(exist_ok=True)
    (folder / "task.toml").write_text(text)
    return folder / "task.toml"


def test_what_a_task_leaves_out_has_its_default(tmp_path: Path) -> None:
    task = read_task(written(tmp_path, GOOD))
    assert (task.name, task.passes, task.rule, task.history) == ("mine", 3, "decide", "own")
    assert task.workloads["solo"].lanes == 1
    assert task.sampling.sampling().temperature == 1.0
    assert task.limits.length_margin is None


def test_a_task_in_the_current_folder_is_named_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its name was empty."""
    monkeypatch.chdir(written(tmp_path, GOOD).parent)
    assert read_task(Path("task.toml")).name == "mine"
    assert find_task("task.toml").name == "mine"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("passess = 3\n" + GOOD, "unknown key 'passess'"),
        (GOOD + "fil = 0.9\n", r"unknown key 'workloads\.solo\.fil'"),
        (GOOD + "[limits]\nlength_margins = 0.1\n", r"unknown key 'limits\.length_margins'"),
        ("passes = 0\n" + GOOD, "passes: input should be greater than or equal to 1"),
        (GOOD.replace("lanes = 1", "lanes = 0"), r"workloads\.solo\.lanes"),
        (GOOD.replace("lanes = 1", 'lanes = "many"'), r"workloads\.solo\.lanes"),
        (GOOD + "fill = 1.5\n", r"workloads\.solo\.fill: input should be less than or equal to 1"),
        ("history = 'mine'\n" + GOOD, "history: input should be 'own' or 'recorded'"),
        (GOOD + "[sampling]\ntop_p = 0\n", r"sampling\.top_p: input should be greater than 0"),
        ("workloads = {}\n[sessions]\n", "workloads: dictionary should have at least 1 item"),
        ("passes = ", "not TOML"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(JudgeError, match=rf"task\.toml: {why}"):
        read_task(written(tmp_path, text))


def test_a_file_that_cannot_be_read_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"task\.toml can't be read"):
        read_task(tmp_path / "task.toml")


def test_a_task_is_found_as_a_file_a_folder_or_a_name(tmp_path: Path) -> None:
    path = written(tmp_path, GOOD)
    assert find_task(str(path)) == find_task(str(path.parent)) == read_task(path)
    assert find_task("demo").name == "demo"
    shipped = "any, demo, qwen3-8b, qwen35-27b, reference, reference-warm, smollm2-135m"
    with pytest.raises(JudgeError, match=f"no task nope; those that ship are {shipped}"):
        find_task("nope")


@pytest.mark.parametrize("path", sorted((data_root() / "gates").glob("*/task.toml")))
def test_the_tasks_that_ship_can_be_read(path: Path) -> None:
    assert read_task(path).workloads
