"""Kits: what their file must hold, and where what they describe lies."""

from pathlib import Path

import pytest

from loadjudge.errors import JudgeError
from loadjudge.paths import data_root
from loadjudge.servers.home import home
from loadjudge.servers.kit import Kit, find_kit, kit_beside, read_kit

GOOD = """
[environment]
remove = ["broken"]
[models.model]
from = "package"
package = "weights==1"
file = "weights/w.gguf"
[models.draft]
from = "layers"
of = "model"
layers = 2
[models.small]
from = "rounding"
of = "draft"
bits = 4
group = 32
[models.other]
from = "hub"
repo = "org/repo"
revision = "abc"
"""
LINES = "engine==1  # pinned\n\n# a comment\nmore==2\n"


def kit(folder: Path, text: str = GOOD, lines: str = LINES) -> Kit:
    folder.mkdir(exist_ok=True)
    (folder / "install.toml").write_text(text)
    (folder / "requirements.txt").write_text(lines)
    return read_kit(folder)


def test_a_kit_is_read_with_its_requirements(tmp_path: Path) -> None:
    read = kit(tmp_path / "task")
    assert read.name == "task"
    assert read.requirements == ("engine==1", "more==2")
    assert read.environment.remove == ["broken"]
    assert set(read.models) == {"model", "draft", "small", "other"}


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD.replace("layers = 2", "layers = 0"), r"models\.draft\.layers\.layers: input should"),
        (GOOD.replace('from = "hub"', 'from = "ftp"'), r"models\.other: input tag 'ftp'"),
        (GOOD.replace('of = "model"', 'of = "modle"'), r"models\.\w+\.of: no model of the file"),
        (GOOD.replace('of = "model"', 'of = "small"'), r"models\.\w+\.of: no model of the file"),
        (GOOD + "[environement]\n", "environement: extra inputs"),
        ("[models", "not TOML"),
        ('[environment]\nrequirements = "none.txt"\n', "or its requirements can't be read"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(JudgeError, match=rf"install\.toml:? ?{why}"):
        kit(tmp_path, text)


def test_models_come_behind_what_they_are_made_of(tmp_path: Path) -> None:
    read = kit(tmp_path)
    assert read.needed(["small"]) == ["model", "draft", "small"]
    assert read.needed(["other", "draft"]) == ["model", "other", "draft"]
    assert read.needed([]) == []


def test_another_recipe_lies_elsewhere(tmp_path: Path) -> None:
    """Nothing stale is ever found: not when what a model is made of changes, either."""
    here = Path("/h")
    before, same = kit(tmp_path / "task"), kit(tmp_path / "task")
    assert before.model_at(here, "small") == same.model_at(here, "small")
    assert before.environment_at(here) == same.environment_at(here)
    after = kit(tmp_path / "task", GOOD.replace("weights==1", "weights==2"), LINES + "third==3\n")
    for name in ("model", "draft", "small"):
        assert before.model_at(here, name) != after.model_at(here, name)
    assert before.model_at(here, "other") == after.model_at(here, "other")
    assert before.environment_at(here) != after.environment_at(here)
    assert before.environment_at(here) != before.environment_at(here, ["own==1"])


def test_a_kit_is_found_by_its_task_and_beside_an_engine(tmp_path: Path) -> None:
    kit(tmp_path / "task")
    assert find_kit(str(tmp_path / "task")).name == "task"
    beside = kit_beside(tmp_path / "task" / "stock")
    assert beside is not None
    assert beside.name == "task"
    assert kit_beside(tmp_path / "elsewhere" / "stock") is None
    with pytest.raises(JudgeError, match=r"nothing is to be installed for demo.*smollm2-135m"):
        find_kit("demo")


@pytest.mark.parametrize("path", sorted((data_root() / "servers").glob("*/install.toml")))
def test_the_kits_that_ship_can_be_read_and_pin_everything(path: Path) -> None:
    read = read_kit(path.parent)
    assert read.requirements
    assert all("==" in line for line in read.requirements)
    assert (path.parent / read.check / "engine.toml").is_file()
    assert "model" in read.models


def test_home_is_the_users_and_can_be_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LOADJUDGE_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/u")
    assert home() == Path("/home/u/.cache/loadjudge")
    monkeypatch.setenv("XDG_CACHE_HOME", "/x")
    assert home() == Path("/x/loadjudge")
    monkeypatch.setenv("LOADJUDGE_HOME", "~/own")
    assert home() == Path("/home/u/own")
