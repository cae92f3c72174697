"""A command's configuration: flag before environment before file before default."""

import tomllib
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from loadjudge.cli import app
from loadjudge.cli.configuring import configurable, name_in_environment
from loadjudge.errors import JudgeError, Status

runner = CliRunner()


def printed(*arguments: object, env: dict[str, str] | None = None, command: str = "judge") -> str:
    done = runner.invoke(app, [command, *map(str, arguments), "--print-config"], env=env or {})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    assert done.exit_code == 0, done.output
    return done.stdout


@pytest.fixture
def write(tmp_path: Path) -> "object":
    def to_file(text: str) -> Path:
        path = tmp_path / "judge.toml"
        path.write_text(text, "utf-8")
        return path

    return to_file


def test_flag_before_environment_before_file_before_default(write: object) -> None:
    path = write("seed = 1\nnum-sessions = 1\npasses = 1\n")  # type: ignore[operator]
    env = {"LOADJUDGE_JUDGE_SEED": "2", "LOADJUDGE_JUDGE_NUM_SESSIONS": "2"}
    text = printed("--config", path, "--seed", 3, env=env)
    values = tomllib.loads(text)
    assert (values["seed"], values["num-sessions"], values["passes"]) == (3, 2, 1)
    assert values["split"] == "dev"
    assert "seed = 3  # flag" in text
    assert "num-sessions = 2  # environment" in text
    assert "passes = 1  # file" in text


def test_a_flag_given_at_its_default_still_comes_before_the_file(write: object) -> None:
    path = write("seed = 7\n")  # type: ignore[operator]
    assert tomllib.loads(printed("--config", path, "--seed", 0))["seed"] == 0


def test_what_is_printed_can_be_fed_back(write: object, tmp_path: Path) -> None:
    text = printed(
        *("--task", 'a "task" of\tmine\x7f\\é', "--dataset", "one two.jsonl", "--dataset", "b"),
        *("--insecure", "--idle-timeout", "1.5", "--header", "X=a b", "--concurrency", "1,4"),
        *("--export", "vllm-bench", "x.json", "--json"),
    )
    again = printed("--config", write(text))  # type: ignore[operator]
    assert tomllib.loads(again) == tomllib.loads(text)
    values = tomllib.loads(again)
    assert values["task"] == 'a "task" of\tmine\x7f\\é'
    assert values["dataset"] == ["one two.jsonl", "b"]
    assert values["export"] == ["vllm-bench", "x.json"]
    assert values["json"] is True


@pytest.mark.parametrize("command", ["judge", "sweep"])
def test_every_flag_can_stand_in_the_file_and_in_the_environment(command: str) -> None:
    """As the commands are, not as a list says."""
    root = typer.main.get_command(app)
    name_in_environment(root)
    options = [
        option
        for option in root.commands[command].params  # type: ignore[attr-defined]
        if option.param_type_name == "option"
        and option.name not in ("config", "print_config", "help")
    ]
    assert len(options) > 20
    text = printed(command=command)
    for option in options:
        key = max(option.opts, key=len).removeprefix("--")
        assert f"\n{key} = " in text or f"\n# {key} is not set" in text
        variable = f"LOADJUDGE_{command}_{key}".upper().replace("-", "_")
        automatic = f"LOADJUDGE_{command}_{option.name}".upper()
        assert option.envvar == variable or (option.envvar is None and automatic == variable)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sed = 1", "judge.toml: unknown key 'sed'; is 'seed' meant?"),
        ("[judge]\nseed = 1", "unknown key 'judge'"),
        ('seed = "x"', "judge.toml: seed: "),
        ("seed = 1.5", "judge.toml: seed: "),
        ("seed = [1]", "seed: takes one value, not [1]"),
        ("seed = true", "seed: takes one value, not true"),
        ("num-sessions = 0", "num-sessions: "),
        ("insecure = 1", "insecure: takes true or false, not 1"),
        ('insecure = "yes"', 'insecure: takes true or false, not "yes"'),
        ('dataset = "a"', 'dataset: takes a list, as in ["one", "two"], not "a"'),
        ("header = {a = 1}", "header: a table is no value of a flag"),
        ("export = [1]", "judge.toml: export: "),
        ("seed = ", "judge.toml: not TOML"),
        ("config = 'x'", "unknown key 'config'"),
    ],
)
def test_a_file_at_fault_is_told_by_its_key(write: object, text: str, said: str) -> None:
    with pytest.raises(JudgeError) as told:
        printed("--config", write(text))  # type: ignore[operator]
    assert said in told.value.sentence
    assert told.value.status == Status.USAGE
    assert "\n" not in told.value.sentence


def test_a_file_that_is_not_there() -> None:
    with pytest.raises(JudgeError, match=r"nowhere\.toml can't be read: no such file") as told:
        printed("--config", "nowhere.toml")
    assert told.value.status == Status.USAGE


def test_underscores_will_do(write: object) -> None:
    assert tomllib.loads(printed("--config", write("num_sessions = 4")))["num-sessions"] == 4  # type: ignore[operator]


def test_the_file_may_be_named_in_the_environment(write: object) -> None:
    path = write("seed = 9")  # type: ignore[operator]
    assert tomllib.loads(printed(env={"LOADJUDGE_JUDGE_CONFIG": str(path)}))["seed"] == 9


def test_a_version_in_the_environment_is_none_of_our_flags() -> None:
    root = typer.main.get_command(app)
    name_in_environment(root)
    version = next(p for p in root.params if p.name == "version")
    assert not version.allow_from_autoenv  # type: ignore[attr-defined]


def test_any_command_can_be_made_configurable(write: object) -> None:
    """The proxy, and whatever comes: nothing of it is known beforehand."""
    other = typer.Typer()
    seen: list[object] = []

    @other.callback()
    def root() -> None:
        """More than one command."""

    @other.command("proxy")
    @configurable
    def proxy(upstream: str = "none", port: int = 0, redact: bool = False) -> None:
        """Passes everything through."""
        seen.append((upstream, port, redact))

    path = write('upstream = "http://a"\nport = 4\nredact = true\n')  # type: ignore[operator]
    done = runner.invoke(other, ["proxy", "--config", str(path), "--port", "5"])
    assert done.exit_code == 0, done.output
    assert seen == [("http://a", 5, True)]
    assert "Passes everything through." in runner.invoke(other, ["proxy", "--help"]).output
