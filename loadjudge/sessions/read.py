"""Reading a session file of any known format."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, get_args

from loadjudge.errors import JudgeError, Status
from loadjudge.sessions.document import Document, Row, Shape, parse_document, read_bytes
from loadjudge.sessions.importers.aiperf import TURN_KEYS, import_aiperf
from loadjudge.sessions.importers.custom import import_custom
from loadjudge.sessions.importers.imported import Imported
from loadjudge.sessions.importers.mlcommons import import_mlcommons
from loadjudge.sessions.importers.openai_messages import import_openai
from loadjudge.sessions.importers.shape_only import is_burst_gpt, refusal, shape_only_format
from loadjudge.sessions.importers.sharegpt import import_sharegpt
from loadjudge.sessions.importers.spec_bench import import_spec_bench
from loadjudge.sessions.importers.swe_agent import import_swe_agent
from loadjudge.sessions.importers.vllm_multi_turn import import_vllm_multi_turn
from loadjudge.sessions.model import Session

Format = Literal[
    "openai",
    "sharegpt",
    "spec_bench",
    "vllm_multi_turn",
    "aiperf",
    "mlcommons",
    "swe_agent",
    "custom",
]
FORMATS: tuple[Format, ...] = get_args(Format)


@dataclass(frozen=True, slots=True)
class SessionFile:
    """What a file held: its format, its sessions, and what its reader noticed."""

    format: Format
    sessions: tuple[Session, ...]
    warnings: tuple[str, ...] = ()


def read_sessions(path: str | Path, format: str = "auto") -> list[Session]:
    """The sessions of a file (``.jsonl``, ``.json``, ``.traj``, or one of them gzipped).

    ``format`` is one of FORMATS or ``auto``, which goes by the content. Raises JudgeError with
    the file, the line and what is wrong there.
    """
    return list(read_session_file(path, format).sessions)


def read_session_file(path: str | Path, format: str = "auto") -> SessionFile:
    """As ``read_sessions``, with the format and the warnings."""
    path = Path(path)
    return parse_sessions(path.name, read_bytes(path), format)


def parse_sessions(name: str, data: bytes, format: str = "auto") -> SessionFile:
    """The sessions in the bytes of a file; ``name`` stands for the file in errors."""
    if format != "auto" and format not in FORMATS:
        raise JudgeError(
            f"there is no dataset format {format!r}; the formats are auto, {', '.join(FORMATS)}.",
            Status.USAGE,
        )
    first_line = data[:4096].partition(b"\n")[0].decode(errors="replace")
    if is_burst_gpt(first_line):
        raise refusal(name, "a BurstGPT trace")
    document = parse_document(name, data)
    first = document.rows[0]
    shape_only = shape_only_format(first.value)
    if shape_only is not None:
        raise refusal(first.at, shape_only)
    chosen = detect_format(document) if format == "auto" else _format(format)
    _check_shape(document, chosen)
    imported = _IMPORTERS[chosen](document)
    sessions, warnings = _unique(document, chosen, imported.sessions)
    return SessionFile(chosen, sessions, (*imported.warnings, *warnings))


def detect_format(document: Document) -> Format:
    """The format that the first record shows; raises JudgeError where it shows none."""
    row = document.rows[0]
    found = _detected(row.value, document.shape)
    if found is None:
        keys = ", ".join(list(row.value)[:6]) if isinstance(row.value, dict) else None
        what = f"its keys are {keys}" if keys else f"it is {_named(row.value)}"
        raise JudgeError(
            f"{row.at}: the format is not recognised ({what}); tried {', '.join(FORMATS)}; "
            "name one with --dataset-format."
        )
    return found


def _detected(record: Any, shape: Shape) -> Format | None:
    if isinstance(record, list):
        is_messages = bool(record) and all(isinstance(m, dict) and "role" in m for m in record)
        return "openai" if is_messages else None
    if not isinstance(record, dict):
        return None
    if isinstance(record.get("history"), list):
        return "swe_agent"
    if "filetype" in record:
        return "vllm_multi_turn"
    if "messages" in record:
        return "vllm_multi_turn" if shape == "array" else "openai"
    if "conversations" in record or "conversation" in record:
        return "sharegpt"
    if "conversation_id" in record and "role" in record:
        return "mlcommons"
    turns = record.get("turns")
    if isinstance(turns, list):
        return "aiperf" if any(isinstance(turn, dict) for turn in turns) else "spec_bench"
    if ("text" in record or "texts" in record) and record.keys() <= TURN_KEYS:
        return "aiperf"  # not just any data set with a column of texts
    return "custom" if "prompt" in record else None


_IMPORTERS: dict[Format, Callable[[Document], Imported]] = {
    "openai": import_openai,
    "sharegpt": import_sharegpt,
    "spec_bench": import_spec_bench,
    "vllm_multi_turn": import_vllm_multi_turn,
    "aiperf": import_aiperf,
    "mlcommons": import_mlcommons,
    "swe_agent": import_swe_agent,
    "custom": import_custom,
}

# The formats that are not one object a line; each also takes a file of one object.
_ARRAYS: tuple[Format, ...] = ("sharegpt", "vllm_multi_turn")


def _check_shape(document: Document, format: Format) -> None:
    if document.shape == "array" and format not in _ARRAYS:
        raise JudgeError(
            f"{document.name}: a JSON array, where {format} has one object a line; "
            f"jq -c '.[]' {document.name} writes it so."
        )


def _format(name: str) -> Format:
    return next(known for known in FORMATS if known == name)


def _named(value: Any) -> str:
    return "a JSON array" if isinstance(value, list) else f"{value!r}"[:40]


def _unique(
    document: Document, format: Format, sessions: tuple[Session, ...]
) -> tuple[tuple[Session, ...], tuple[str, ...]]:
    """Sessions with unique ids: our own format must have them, foreign ones get a suffix."""
    seen: dict[str, Row] = {}
    unique: list[Session] = []
    renamed = 0
    for place, session in enumerate(sessions):
        if session.id in seen:
            if format == "openai":
                raise JudgeError(
                    f"{document.rows[place].at}: id {session.id!r} is already that of "
                    f"{seen[session.id].at}; ids must be unique in a file."
                )
            renamed += 1
            session = replace(session, id=_free_id(session.id, seen))
        seen[session.id] = document.rows[min(place, len(document.rows) - 1)]
        unique.append(session)
    warnings = (f"{document.name}: {renamed} repeated ids got a suffix",) if renamed else ()
    return tuple(unique), warnings


def _free_id(id: str, taken: dict[str, Row]) -> str:
    number = 2
    while f"{id}-{number}" in taken:
        number += 1
    return f"{id}-{number}"
