"""The log: whole lines, torn lines, full disks, one writer."""

import os
from pathlib import Path

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.record.log import EVENTS, RunLog, read_events


def test_events_come_back_in_order(tmp_path: Path) -> None:
    with RunLog(tmp_path) as log:
        log.append({"event": "a", "n": 1})
        log.append({"event": "b", "text": "Grüße\n"})
        log.sync()
    with RunLog(tmp_path) as log:
        log.append({"event": "c"})
    assert list(read_events(tmp_path)) == [
        {"event": "a", "n": 1},
        {"event": "b", "text": "Grüße\n"},
        {"event": "c"},
    ]


def test_a_torn_last_line_is_passed_over_and_cut_before_the_next(tmp_path: Path) -> None:
    path = tmp_path / EVENTS
    path.write_bytes(b'{"event":"a"}\n{"event":"to')
    assert list(read_events(tmp_path)) == [{"event": "a"}]
    assert path.read_bytes().endswith(b"to")  # reading changes nothing
    with RunLog(tmp_path) as log:
        log.append({"event": "b"})
    assert path.read_bytes() == b'{"event":"a"}\n{"event":"b"}\n'


def test_a_log_of_a_torn_line_alone_is_empty(tmp_path: Path) -> None:
    (tmp_path / EVENTS).write_bytes(b'{"event":"to')
    assert list(read_events(tmp_path)) == []


@pytest.mark.parametrize("line", [b"{torn", b"", b"\xff", b"[1]", b'{"no": "event"}', b"null"])
def test_a_line_within_that_is_no_event_is_named_by_its_number(tmp_path: Path, line: bytes) -> None:
    (tmp_path / EVENTS).write_bytes(b'{"event":"a"}\n' + line + b'\n{"event":"b"}\n')
    with pytest.raises(JudgeError, match=r"events\.jsonl, line 2: not"):
        list(read_events(tmp_path))


def test_a_folder_without_a_log_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"is not a run directory: events\.jsonl: no such file"):
        list(read_events(tmp_path))


def test_a_log_that_cannot_be_opened_is_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match="can't be opened: no such file") as caught:
        RunLog(tmp_path / "missing")
    assert caught.value.status == Status.SETUP


@pytest.fixture
def full(tmp_path: Path) -> RunLog:
    """A log whose device is full."""
    log = RunLog(tmp_path)
    device = os.open("/dev/full", os.O_WRONLY)
    os.dup2(device, log._fd)
    os.close(device)
    return log


def test_a_full_disk_is_a_sentence_that_says_how_to_go_on(full: RunLog) -> None:
    with (
        full,
        pytest.raises(JudgeError, match=r"no space left on device; free some .*--resume") as e,
    ):
        full.append({"event": "a"})
    assert e.value.status == Status.RUN


def test_what_a_full_disk_took_of_a_line_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The event that told of the run's end was written onto the torn line: the log was lost."""
    write = os.write

    def nearly_full(fd: int, data: bytes) -> int:
        if len(data) > 20:
            return write(fd, data[:20])
        raise OSError(28, "No space left on device")

    with RunLog(tmp_path) as log:
        log.append({"event": "a"})
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", nearly_full)
            with pytest.raises(JudgeError):
                log.append({"event": "long", "text": "x" * 18})
        log.append({"event": "died"})
    assert [e["event"] for e in read_events(tmp_path)] == ["a", "died"]


def test_a_short_write_is_gone_on_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = os.write
    monkeypatch.setattr(os, "write", lambda fd, data: write(fd, data[:7]))
    with RunLog(tmp_path) as log:
        log.append({"event": "a", "text": "longer than seven bytes"})
    assert list(read_events(tmp_path)) == [{"event": "a", "text": "longer than seven bytes"}]


def test_a_failed_sync_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: int) -> None:
        raise OSError(5, "Input/output error")

    with RunLog(tmp_path) as log:
        monkeypatch.setattr(os, "fsync", fail)
        with pytest.raises(JudgeError, match="input/output error") as caught:
            log.sync()
    assert caught.value.status == Status.RUN


def test_a_second_writer_is_kept_out(tmp_path: Path) -> None:
    """Two judges in one directory: the second cut the line that the first was writing."""
    with RunLog(tmp_path) as log:
        with pytest.raises(JudgeError, match="another loadjudge writes to"):
            RunLog(tmp_path)
        log.append({"event": "a"})
    with RunLog(tmp_path):
        assert list(read_events(tmp_path)) == [{"event": "a"}]
