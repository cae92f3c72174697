"""Engine directories: what their file must hold, and who is found under a name."""

import sys
from pathlib import Path

import pytest

from loadjudge.errors import JudgeError
from loadjudge.paths import data_root
from loadjudge.servers.engine import Engine, find_engine, read_engine
from tests.servers.test_kit import kit

GOOD = '[engine]\nname = "mine"\nfamily = "vllm"\ncommand = ["serve", "--uds", "{socket}"]\n'


def directory(tmp_path: Path, text: str) -> Path:
    (tmp_path / "engine.toml").write_text(text)
    return tmp_path


def test_a_directory_is_read_as_it_stands(tmp_path: Path) -> None:
    engine = read_engine(directory(tmp_path, GOOD + "env = {A = 'b'}\nready_timeout_s = 5\n"))
    assert (engine.name, engine.family, engine.env) == ("mine", "vllm", {"A": "b"})
    assert engine.command == ("serve", "--uds", "{socket}")
    assert (engine.directory, engine.ready_timeout_s) == (tmp_path, 5)
    assert engine.url is None
    assert engine.ready_path == "/health"  # as the family has it


def test_a_plain_endpoint_is_ready_when_it_lists_its_models(tmp_path: Path) -> None:
    text = GOOD.replace("vllm", "openai")
    assert read_engine(directory(tmp_path, text)).ready_path == "/v1/models"
    assert read_engine(directory(tmp_path, text + 'ready_path = "/up"\n')).ready_path == "/up"


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (GOOD + "comand = []\n", r"engine\.comand: extra inputs are not permitted"),
        (GOOD.replace('"vllm"', '"vlllm"'), r"engine\.family: input should be 'vllm', "),
        (GOOD + "ready_timeout_s = 0\n", r"engine\.ready_timeout_s: input should be greater"),
        ('[engine]\nname = "a"\nfamily = "vllm"\ncommand = []\n', r"engine\.command: list should"),
        ("", r"engine\.name: field required"),
        ("engine = 3\n", "engine: input should be"),
        (GOOD + "[engin]\na = 1\n", r"unknown table 'engin'; there is \[engine\] only"),
        (GOOD + "name = ", "not TOML"),
    ],
)
def test_a_mistake_names_the_file_and_the_key(tmp_path: Path, text: str, why: str) -> None:
    with pytest.raises(JudgeError, match=rf"engine\.toml: {why}"):
        read_engine(directory(tmp_path, text))


def test_a_url_is_an_engine_that_runs_already() -> None:
    for url in ("http://h:1/v1", "https://h/v1", "unix:/tmp/s"):
        assert find_engine(url) == Engine(name=url, family=None, url=url)


def test_a_name_is_looked_for_among_those_that_ship(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir("/")
    found = find_engine("servers/reference/stock")
    assert found.directory == data_root() / "servers" / "reference" / "stock"


def test_what_is_no_engine_says_so(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"is no engine directory: it holds no engine\.toml"):
        find_engine(str(tmp_path))
    with pytest.raises(JudgeError, match=r"there is no engine directory .*a URL begins with"):
        find_engine(str(tmp_path / "missing"))


def test_places_of_the_command_are_filled_in() -> None:
    command = ("{python}", "-m", "x", "--at={socket}:{port}", "{model}", "{directory}/w", "{other}")
    engine = Engine("e", None, directory=Path("/d"), command=command)
    filled = engine.filled(socket=Path("/s"), port=7, model="m")
    assert filled == [sys.executable, "-m", "x", "--at=/s:7", "m", "/d/w", "{other}"]
    assert engine.uses_port
    assert not Engine("e", None, command=("{socket}",)).uses_port


def test_places_of_a_kit_are_filled_in_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LOADJUDGE_HOME", "/home-of-kits")
    made = kit(tmp_path / "task")
    command = ("{python}", "{small}", "{socket}", "{model}")
    own = ("own==1",)
    engine = Engine("e", None, kit=made, command=command, requirements=own, env={"A": "{draft}"})
    environment = made.environment_at(Path("/home-of-kits"), own)
    small, draft, model = (
        str(made.model_at(Path("/home-of-kits"), n)) for n in ("small", "draft", "model")
    )
    filled = engine.filled(socket=Path("/s"), port=0, model="served")
    assert filled == [f"{environment}/bin/python", small, "/s", model]
    assert engine.filled_env(socket=Path("/s"), port=0, model="") == {"A": draft}
    assert engine.models() == ["model", "draft", "small"]
    assert engine.describe()["kit"]["requirements"] == ["engine==1", "more==2", "own==1"]


def test_a_candidate_from_elsewhere_runs_in_its_tasks_environment(tmp_path: Path) -> None:
    made = kit(tmp_path / "task")
    outside = tmp_path / "mine"
    outside.mkdir()
    (outside / "engine.toml").write_text(GOOD)
    assert find_engine(str(outside)).kit is None
    assert find_engine(str(outside), made).kit == made


@pytest.mark.parametrize("path", sorted((data_root() / "servers").rglob("engine.toml")))
def test_the_engines_that_ship_can_be_read(path: Path) -> None:
    assert read_engine(path.parent).command
