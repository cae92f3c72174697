"""Files that are written whole or not at all."""

import os
from pathlib import Path

import pytest

from loadjudge.errors import JudgeError
from loadjudge.record.files import write_whole


def test_a_file_is_written_and_nothing_left_beside_it(tmp_path: Path) -> None:
    write_whole(tmp_path / "a", b"old")
    write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"new"
    assert os.listdir(tmp_path) == ["a"]
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o644


def test_a_failure_leaves_the_old_file_and_nothing_beside_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "a").write_bytes(b"old")
    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(JudgeError, match="a can't be written: no space left on device"):
        write_whole(tmp_path / "a", b"new")
    assert (tmp_path / "a").read_bytes() == b"old"
    assert os.listdir(tmp_path) == ["a"]


def test_a_folder_that_is_not_there_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="no such file or directory"):
        write_whole(tmp_path / "missing" / "a", b"")
