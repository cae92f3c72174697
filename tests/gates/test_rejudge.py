"""Verdicts anew: of seed records as their pages have them, and of ours."""

from pathlib import Path
from typing import Any

import pytest
from typer import Typer
from typer.testing import CliRunner

from loadjudge.cli.rejudge import rejudge
from loadjudge.errors import JudgeError
from loadjudge.evaluate import evaluate
from loadjudge.gates.rejudge import read_limits, rejudge_record, rejudge_run
from loadjudge.record.evaluation import Evaluation, Limits, read_evaluation

RECORDS = Path(__file__).parents[3] / "shared" / "data" / "records"
SMALL, LARGE = "qwen3-8b-development-1.946", "qwen35-27b-development-1.318"


def seed_record(name: str) -> Evaluation:
    path = RECORDS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the seed record {path} isn't here")
    return read_evaluation(path)


@pytest.mark.parametrize("name", [SMALL, LARGE])
def test_a_seed_record_passes_by_its_own_rule(name: str) -> None:
    seed = seed_record(name)
    again = rejudge_record(seed)
    assert (again.rule, again.verdict, again.reason) == ("reject", "passed", None)
    assert again.score == seed.score
    assert "fail" not in {g.verdict for g in (again.gates or {}).values()}


@pytest.mark.parametrize(
    ("name", "undecided", "growth"),
    [
        (SMALL, {"likelihood", "lengths"}, 3.49),
        (LARGE, {"likelihood", "argmax", "lengths"}, 1.83),
    ],
)
def test_a_seed_record_is_undecided_by_ours(name: str, undecided: set[str], growth: float) -> None:
    again = rejudge_record(seed_record(name), rule="decide")
    gates = again.gates or {}
    assert again.verdict == "inconclusive"
    assert {n for n, g in gates.items() if g.verdict == "inconclusive"} == undecided
    assert gates["likelihood"].growth == pytest.approx(growth, rel=0.01)
    assert gates["likelihood"].missing_tokens is None
    assert "times the tokens would decide it" in gates["likelihood"].sentence
    assert {gates[n].verdict for n in ("memory", "fidelity")} == {"pass"}
    assert gates["agreement"].verdict == "n/a"


def test_other_limits_give_other_verdicts() -> None:
    strict = Limits(fidelity_ceiling=1e-3, memory_slack_mib=100)
    again = rejudge_record(seed_record(LARGE), strict)
    assert again.verdict == "failed"
    assert again.score == 0
    gates = again.gates or {}
    assert {n for n, g in gates.items() if g.verdict == "fail"} == {"memory", "fidelity"}
    assert gates["memory"].bound_high == pytest.approx(169_119.1 - 4096 + 100)
    assert gates["likelihood"].verdict == "n/a"


@pytest.fixture
def run(make: Any) -> Any:
    passes = [*make.passes("stock", [100, 101, 102]), *make.passes("candidate", [200, 202, 204])]
    return make.run(passes)


def test_a_run_is_judged_anew_from_its_log(run: Any) -> None:
    assert rejudge_run(run) == evaluate(run)
    again = rejudge_run(run, Limits(memory_slack_mib=-100), "reject")
    assert (again.verdict, again.rule) == ("failed", "reject")
    assert again.limits.length_margin is None


def test_our_record_alone_gives_the_verdicts_of_its_run(run: Any) -> None:
    whole = evaluate(run)
    again = rejudge_record(whole)
    assert again.verdict == whole.verdict
    assert {n: g.verdict for n, g in (again.gates or {}).items()} == {
        n: g.verdict for n, g in (whole.gates or {}).items()
    }


@pytest.mark.parametrize("text", ["fidelity_ceiling = 0.1", "[limits]\nfidelity_ceiling = 0.1"])
def test_limits_stand_in_a_table_or_at_the_top(tmp_path: Path, text: str) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    assert read_limits(path) == Limits(fidelity_ceiling=0.1)


@pytest.mark.parametrize(
    ("text", "said"),
    [("fidelty = 1", "no limit 'fidelty'"), ("a = ", "not TOML"), ("rank_p = 'x'", "rank_p: ")],
)
def test_limits_that_are_none_are_told(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "limits.toml"
    path.write_text(text)
    with pytest.raises(JudgeError, match=said):
        read_limits(path)


def test_the_command_prints_the_verdict_and_exits_with_it(tmp_path: Path) -> None:
    app = Typer()
    app.command()(rejudge)
    seed_record(SMALL)
    path = str(RECORDS / f"{SMALL}.json")
    passed = CliRunner().invoke(app, [path])
    assert passed.exit_code == 0
    assert passed.output.startswith("Passed")
    undecided = CliRunner().invoke(app, [path, "--rule", "decide"])
    assert undecided.exit_code == 5
    assert undecided.output.startswith("Inconclusive")
    limits = tmp_path / "limits.toml"
    limits.write_text("fidelity_ceiling = 1e-9")
    assert CliRunner().invoke(app, [path, "--limits", str(limits)]).exit_code == 1
