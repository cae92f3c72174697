"""What a proxy is asked to do."""

from dataclasses import dataclass, field
from pathlib import Path

from loadjudge.errors import JudgeError, Status

GIB = 1 << 30


@dataclass(frozen=True, slots=True)
class Limits:
    """In seconds. ``answer_s``: to the first byte of an answer; ``idle_s``: between its bytes, and
    as long a client may stop reading; ``request_s``: for a client to finish a request."""

    answer_s: float = 600.0
    idle_s: float = 600.0
    request_s: float = 600.0


@dataclass(frozen=True, slots=True)
class RecordOptions:
    """``idle_s``: a session without a new turn for so long is written; ``open_sessions``: as many
    are kept open; ``rotate_bytes``: a file that reaches it is moved aside."""

    file: Path
    redact: tuple[str, ...] = ()
    patterns: tuple[str, ...] = ()
    idle_s: float = 1800.0
    open_sessions: int = 10_000
    rotate_bytes: int = GIB


@dataclass(frozen=True, slots=True)
class MirrorOptions:
    """``in_flight``: requests at once on the candidate; ``queue``: as many more wait."""

    url: str
    in_flight: int = 64
    queue: int = 256


@dataclass(frozen=True, slots=True)
class SplitOptions:
    """``share`` of sessions, 0 to 1, goes to the candidate. ``score``: replies of each arm that the
    upstream scores, at most; ``bound``: of the gap of their likelihoods, in nats a token."""

    url: str
    share: float
    score: int = 0
    bound: float | None = None
    ask_token_ids: bool = False


@dataclass(frozen=True, slots=True)
class Options:
    """All of it. ``paths``: prefixes that pass; ``share_key``: the candidate gets users' keys."""

    upstream: str
    host: str = "127.0.0.1"
    port: int = 8100
    uds: Path | None = None
    paths: tuple[str, ...] = ("/v1",)
    insecure: bool = False
    share_key: bool = False
    limits: Limits = field(default_factory=Limits)
    keep_alive_s: float = 300.0
    record: RecordOptions | None = None
    mirror: MirrorOptions | None = None
    split: SplitOptions | None = None
    seed: int = 0


def parse_split(text: str) -> tuple[float, str]:
    """``10:URL``: the share in per cent and the URL. Raises JudgeError (usage)."""
    percent, found, url = text.partition(":")
    try:
        share = float(percent) / 100
    except ValueError:
        share = -1.0
    if not found or not url or not 0 < share < 1:
        raise JudgeError(
            f"--split takes PERCENT:URL, between 0 and 100 per cent of sessions, as in "
            f"10:http://gpu2:8000/v1; not {text!r}",
            Status.USAGE,
        )
    return share, url


def parse_paths(given: list[str] | None) -> tuple[str, ...]:
    """Prefixes that pass: /v1, and what is given. Raises JudgeError (usage)."""
    for path in given or ():
        if not path.startswith("/") or "?" in path or not path.isprintable():
            raise JudgeError(f"--path takes the beginning of a path, as in /tokenize; not {path!r}",
                             Status.USAGE)  # fmt: skip
    return tuple(dict.fromkeys(("/v1", *(given or ()))))
