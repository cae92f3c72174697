"""What commands tell CI systems, and by which status they end."""

import json
import runpy
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from loadjudge.cli import app
from loadjudge.errors import JudgeError, Status

runner = CliRunner()
Write = Callable[..., Path]


@pytest.fixture(scope="module")
def make_evaluation() -> Any:
    factories = Path(__file__).parents[1] / "report" / "conftest.py"
    return runpy.run_path(str(factories))["make_evaluation"]


@pytest.fixture
def write(tmp_path: Path, make_evaluation: Any) -> Write:
    """Writes a record whose speedups are scaled, its intervals ± 1 %."""

    def to_file(name: str, scale: float = 1.0, **changes: Any) -> Path:
        made = make_evaluation()
        pooled = {
            w: {"ratio": scale * p.ratio, "low": 0.99 * scale * p.ratio,
                "high": 1.01 * scale * p.ratio, "sessions": 80}
            for w, p in made.pooled.items()
        }  # fmt: skip
        score = {"specscore": 1.8 * scale, "low": 1.79 * scale, "high": 1.81 * scale}
        values = {"pooled": pooled, "specscore": 1.8 * scale, "specscore_interval": score}
        path = tmp_path / f"{name}.json"
        path.write_bytes(make_evaluation(**{**values, **changes}).to_bytes())
        return path

    return to_file


@pytest.mark.parametrize(
    ("scale", "share", "status"), [(1.0, "5%", 0), (0.8, "5%", 1), (0.95, "5%", 5), (0.8, "0.3", 0)]
)
def test_compare_ends_by_the_regression(
    write: Write, scale: float, share: str, status: int
) -> None:
    base, new = write("base"), write("new", scale)
    done = runner.invoke(app, ["compare", str(base), str(new), "--max-regression", share])
    assert done.exit_code == status, done.output
    word = {0: "No regression", 1: "Regression.", 5: "Regression not ruled out"}[status]
    assert word in done.output


def test_compare_with_an_invalid_run(write: Write) -> None:
    bad = write("bad", verdict="invalid", invalid=["the client was late"])
    done = runner.invoke(app, ["compare", str(write("base")), str(bad), "--max-regression", "5%"])
    assert done.exit_code == Status.RUN
    assert "the new run is invalid: the client was late" in done.output


def test_compare_alone_gives_no_verdict(write: Write) -> None:
    done = runner.invoke(app, ["compare", str(write("base")), str(write("new", 0.5))])
    assert done.exit_code == 0
    with pytest.raises(JudgeError, match="--max-regression"):
        runner.invoke(
            app, ["compare", str(write("a")), str(write("b")), "--github"], catch_exceptions=False
        )


def test_compare_as_json(write: Write) -> None:
    arguments = ["compare", str(write("base")), str(write("new", 0.8)), "--json"]
    done = runner.invoke(app, [*arguments, "--max-regression", "5%"])
    values = json.loads(done.stdout)
    assert values["regression"]["verdict"] == "failed"
    assert {f["name"] for f in values["regression"]["figures"]} == {
        "SpecScore", "solo", "team", "busy",
    }  # fmt: skip
    assert "regression" not in json.loads(runner.invoke(app, arguments).stdout)


def test_annotations_leave_json_alone_and_the_summary_is_added_to(
    write: Write, tmp_path: Path
) -> None:
    summary, junit = tmp_path / "summary.md", tmp_path / "junit.xml"
    summary.write_text("what was there\n")
    bad = write("bad", verdict="invalid", invalid=["the client was late"])
    done = runner.invoke(
        app,
        ["rejudge", str(bad), "--json", "--github", "--junit", str(junit)],
        env={"GITHUB_STEP_SUMMARY": str(summary)},
    )
    assert json.loads(done.stdout)["verdict"] == "invalid"
    assert done.stderr.startswith("::error title=loadjudge%3A the run can be trusted::")
    text = summary.read_text()
    assert text.startswith("what was there\n## Invalid")
    assert ET.parse(junit).find(".//error") is not None
    # Without --json they go where people look for them.
    plain = runner.invoke(app, ["rejudge", str(bad), "--github"])
    assert "::error title=" in plain.stdout


def test_a_summary_that_cannot_be_written_is_told(write: Write, tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="GITHUB_STEP_SUMMARY"):
        runner.invoke(
            app,
            ["rejudge", str(write("a")), "--github"],
            env={"GITHUB_STEP_SUMMARY": str(tmp_path / "no" / "file")},
            catch_exceptions=False,
        )


def test_what_fails_before_the_first_pass_is_in_the_junit(tmp_path: Path) -> None:
    junit = tmp_path / "junit.xml"
    with pytest.raises(JudgeError) as told:
        runner.invoke(
            app,
            ["judge", "--candidate", "nowhere", "--stock", "nowhere", "--junit", str(junit)],
            catch_exceptions=False,
        )
    error = ET.parse(junit).find(".//error")
    assert error is not None
    assert error.text == told.value.sentence


def test_a_record_has_no_turns_to_export(write: Write) -> None:
    with pytest.raises(JudgeError, match="needs a run directory"):
        runner.invoke(
            app,
            ["report", str(write("a")), "--export", "vllm-bench", "x.json"],
            catch_exceptions=False,
        )
