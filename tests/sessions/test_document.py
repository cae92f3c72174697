"""Files to JSON values, and what is said of files that are not."""

import gzip
from pathlib import Path

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions.document import parse_document, read_document


def test_lines_keep_their_numbers_over_blank_lines_and_crlf() -> None:
    found = parse_document("a.jsonl", b'\xef\xbb\xbf{"a": 1}\r\n\r\n{"a": 2}\r\n')
    assert found.shape == "lines"
    assert [(row.at, row.value["a"]) for row in found.rows] == [
        ("a.jsonl, line 1", 1),
        ("a.jsonl, line 3", 2),
    ]


def test_line_separators_inside_strings_do_not_end_a_line() -> None:
    text = "a\u2028b\u0085c"
    found = parse_document("a.jsonl", f'{{"t": "{text}"}}\n'.encode())
    assert [row.value for row in found.rows] == [{"t": text}]


@pytest.mark.parametrize(
    ("data", "shape", "rows"),
    [
        (b'[{"a": 1}, {"a": 2}]', "array", 2),
        (b'[\n {"a": 1},\n {"a": 2}\n]\n', "array", 2),
        (b'{\n "a": 1\n}\n', "object", 1),
        (b'{"a": 1}', "lines", 1),
        (b'[{"role": "user"}]\n[{"role": "user"}]\n', "lines", 2),
        (b'[{"role": "user"}]\n', "lines", 1),
        (b'[\n{"role": "user"}\n]\n', "object", 1),
    ],
)
def test_the_shape_follows_from_the_content(data: bytes, shape: str, rows: int) -> None:
    found = parse_document("a.json", data)
    assert (found.shape, len(found.rows)) == (shape, rows)


@pytest.mark.parametrize(
    ("name", "data", "sentence"),
    [
        ("a.jsonl", b'{"a": 1}\n{"a" 2}\n', r"a\.jsonl, line 2, column 6: malformed JSON"),
        ("a.jsonl", b'{"a": 1\n{"a": 2}\n', r"a\.jsonl, line 1, column 8: malformed JSON"),
        ("a.json", b'[\n {"a": 1},\n {"a" 2}\n]', r"a\.json, line 3, column \d+: malformed"),
        ("a.jsonl", b'{"a": "\\ud800"}\n', r"line 1, column \d+: malformed JSON .*surrogate"),
        ("a.jsonl", b'{"a": 1}\n{"b": "caf\xc3', "line 2: half a UTF-8 character at byte 11 of"),
        ("a.jsonl", b'{"b": "caf\xc3"}\n', r"line 1: half a UTF-8 character at byte 11 .*byte 11 "),
        ("a.jsonl", b'{"b": "\xff"}\n', "line 1: bytes that are not UTF-8 at byte 8"),
        ("a.jsonl", '{"a": 1}'.encode("utf-16"), "UTF-16"),
        ("a.json", b"[]", "empty JSON array"),
        ("a.jsonl", b"hello\n", r"line 1: this is not JSON \(it begins with 'hello'\)"),
        ("a.jsonl", b"\n \n", "empty"),
    ],
)
def test_malformed_files_are_refused_with_the_place(name: str, data: bytes, sentence: str) -> None:
    with pytest.raises(JudgeError, match=sentence) as caught:
        parse_document(name, data)
    assert caught.value.status is Status.SETUP
    assert caught.value.sentence.startswith(name)


def test_missing_empty_and_damaged_files(tmp_path: Path) -> None:
    with pytest.raises(JudgeError, match=r"there is no file .*gone\.jsonl"):
        read_document(tmp_path / "gone.jsonl")
    with pytest.raises(JudgeError, match="is a folder"):
        read_document(tmp_path)
    empty = tmp_path / "empty.jsonl"
    empty.write_bytes(b"")
    with pytest.raises(JudgeError, match=r"empty\.jsonl is empty"):
        read_document(empty)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 50)[:-12])
    with pytest.raises(JudgeError, match="damaged gzip"):
        read_document(cut)


def test_gzipped_files_are_read_whatever_their_name(tmp_path: Path) -> None:
    for name in ("a.jsonl.gz", "a.jsonl"):
        path = tmp_path / name
        path.write_bytes(gzip.compress(b'{"a": 1}\n'))
        found = read_document(path)
        assert (found.stem, found.rows[0].value) == ("a", {"a": 1})
