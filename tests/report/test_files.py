from pathlib import Path

import pytest

from loadjudge.errors import JudgeError
from loadjudge.record.evaluation import Evaluation
from loadjudge.report import files


def test_a_report_is_written_whole(tmp_path: Path, evaluation: Evaluation) -> None:
    path = files.write_report(tmp_path, evaluation, None)
    assert path == tmp_path / "report.html"
    assert path.read_text().rstrip().endswith("</html>")
    assert path.stat().st_mode & 0o777 == 0o644
    assert list(tmp_path.iterdir()) == [path]


def test_a_report_that_fails_leaves_the_old_one(
    tmp_path: Path, evaluation: Evaluation, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "report.html"
    path.write_text("old")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(JudgeError, match="no space left"):
        files.write_report(tmp_path, evaluation, None)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_directory_is_named(tmp_path: Path, evaluation: Evaluation) -> None:
    with pytest.raises(JudgeError, match="gone"):
        files.write_report(tmp_path / "gone", evaluation, None)
