"""From a file's bytes to JSON values that know where they stood; no format is known here."""

import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import orjson

from loadjudge.errors import JudgeError

Shape = Literal["lines", "array", "object"]

_GZIP_MAGIC = b"\x1f\x8b"
_UTF8_BOM = b"\xef\xbb\xbf"
_UTF16_BOMS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Row:
    """One record of a file. ``at`` says where, for errors: "chat.jsonl, line 3"."""

    at: str
    number: int  # the line in a file of lines, the place (from 1) in an array
    value: Any


@dataclass(frozen=True, slots=True)
class Document:
    """A file's records. An ``object`` document has one row, an ``array`` one an item."""

    name: str  # as in errors
    stem: str  # the name without its folder and extensions
    shape: Shape
    rows: tuple[Row, ...]


def read_document(path: Path) -> Document:
    """Read and parse the file at ``path``, gzip or plain."""
    return parse_document(path.name, read_bytes(path))


def read_bytes(path: Path) -> bytes:
    """The bytes of the file, unzipped; raises JudgeError where there is nothing to read."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise JudgeError(f"there is no file {path}; check the path.") from None
    except IsADirectoryError:
        raise JudgeError(f"{path} is a folder; name one of the files in it.") from None
    except OSError as error:
        raise JudgeError(f"{path} cannot be read: {error.strerror}.") from None
    if data.startswith(_GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (OSError, EOFError, zlib.error) as error:
            raise JudgeError(f"{path.name} is a damaged gzip file ({error}).") from None
    if not data.strip():
        raise JudgeError(f"{path.name} is empty; a session file holds at least one session.")
    return data


def parse_document(name: str, data: bytes) -> Document:
    """Parse ``data``: JSON lines, or one JSON value over the whole file.

    A file whose first line is a whole JSON value is read as lines, except where that line is
    the only one and holds an array of records.
    """
    data = data.removeprefix(_UTF8_BOM)
    _check_utf8(name, data)
    stem = name.split(".")[0] or name
    lines = list(_numbered_lines(data))
    if not lines:
        raise JudgeError(f"{name} is empty; a session file holds at least one session.")
    first_number, first_line = lines[0]
    if first_line[:1] not in b"{[":
        raise JudgeError(
            f"{name}, line {first_number}: this is not JSON (it begins with "
            f"{first_line[:24].decode(errors='replace')!r}); a session file holds JSON lines, "
            "a JSON array or a JSON object."
        )
    try:
        first = orjson.loads(first_line)
    except orjson.JSONDecodeError as error:
        return _whole(name, stem, data, error, first_number)
    if len(lines) == 1 and isinstance(first, list) and not _is_message_list(first):
        return Document(name, stem, "array", _items(name, first))
    rows = [Row(f"{name}, line {first_number}", first_number, first)]
    for number, line in lines[1:]:
        try:
            value = orjson.loads(line)
        except orjson.JSONDecodeError as error:
            raise _malformed(name, number, error) from None
        rows.append(Row(f"{name}, line {number}", number, value))
    return Document(name, stem, "lines", tuple(rows))


def _whole(
    name: str, stem: str, data: bytes, line_error: orjson.JSONDecodeError, line: int
) -> Document:
    """Parse a file whose first line is not a JSON value in itself: pretty-printed, or broken."""
    try:
        value = orjson.loads(data)
    except orjson.JSONDecodeError as error:
        # Of a file of lines the first line's error is the true one; of a pretty-printed value
        # that error only says that the line ends early.
        if name.removesuffix(".gz").endswith((".jsonl", ".ndjson")):
            raise _malformed(name, line, line_error) from None
        raise _malformed(name, error.lineno, error) from None
    if isinstance(value, list):
        if _is_message_list(value):  # one session, as its bare messages
            return Document(name, stem, "object", (Row(name, 1, value),))
        return Document(name, stem, "array", _items(name, value))
    return Document(name, stem, "object", (Row(name, 1, value),))


def _items(name: str, values: list[Any]) -> tuple[Row, ...]:
    if not values:
        raise JudgeError(f"{name} holds an empty JSON array, so there is no session in it.")
    return tuple(
        Row(f"{name}, record {number}", number, value) for number, value in enumerate(values, 1)
    )


def _is_message_list(value: list[Any]) -> bool:
    return bool(value) and all(
        isinstance(item, dict) and "role" in item and "conversation_id" not in item
        for item in value
    )


def _numbered_lines(data: bytes) -> Iterator[tuple[int, bytes]]:
    # Not str.splitlines: it also breaks at U+2028 and the like, which JSON strings may hold.
    for number, line in enumerate(data.split(b"\n"), 1):
        line = line.strip()
        if line:
            yield number, line


def _check_utf8(name: str, data: bytes) -> None:
    if data.startswith(_UTF16_BOMS):
        raise JudgeError(f"{name} is UTF-16; save it as UTF-8.")
    try:
        data.decode()
    except UnicodeDecodeError as error:
        line_start = data.rfind(b"\n", 0, error.start) + 1
        line = data.count(b"\n", 0, error.start) + 1
        what = (
            "half a UTF-8 character"
            if error.reason == "unexpected end of data" or _is_cut(data, error.start)
            else "bytes that are not UTF-8"
        )
        raise JudgeError(
            f"{name}, line {line}: {what} at byte {error.start - line_start + 1} of the line "
            f"(byte {error.start + 1} of the file); the file must be UTF-8."
        ) from None


def _is_cut(data: bytes, start: int) -> bool:
    """Whether a multi-byte character begins at ``start`` and its continuation is missing."""
    return 0xC2 <= data[start] <= 0xF4


def _malformed(name: str, line: int, error: orjson.JSONDecodeError) -> JudgeError:
    return JudgeError(
        f"{name}, line {line}, column {error.colno}: malformed JSON ({error.msg}); "
        "mend or remove that line."
    )
