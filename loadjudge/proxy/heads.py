"""Heads of requests and answers, as a proxy passes them on. Pure.

Fields keep their order, their spelling and their repetitions; only those that speak of one
connection are taken out (RFC 9110, 7.6.1) and said anew for the other one.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import unquote_to_bytes

import orjson

Field = tuple[bytes, bytes]

_OF_THE_CONNECTION = frozenset(
    (
        *(b"connection", b"keep-alive", b"proxy-connection", b"te", b"transfer-encoding"),
        *(b"upgrade", b"http2-settings", b"proxy-authorization", b"proxy-authenticate"),
    )
)
# A client that names these in Connection would change where the message ends or goes.
_NEVER_SKIPPED = frozenset((b"content-length", b"host"))
_KEYS = frozenset((b"authorization", b"x-api-key", b"api-key", b"cookie", b"x-goog-api-key"))


@dataclass(frozen=True, slots=True)
class RequestHead:
    """``target`` as the client wrote it; ``version`` is ``1.0`` or ``1.1``."""

    method: bytes
    target: bytes
    version: str
    fields: tuple[Field, ...]
    keep_alive: bool

    @property
    def path(self) -> str:
        """The target's path without its query, for people and for matching."""
        return origin_form(self.target).partition(b"?")[0].decode("latin-1")

    @property
    def chunked(self) -> bool:
        return b"chunked" in values_of(self.fields, b"transfer-encoding").lower()

    @property
    def has_body(self) -> bool:
        return self.chunked or values_of(self.fields, b"content-length") not in (b"", b"0")


@dataclass(frozen=True, slots=True)
class AnswerHead:
    """The status line and fields of an answer, and how its body ends."""

    status: int
    reason: bytes
    fields: tuple[Field, ...]

    @property
    def chunked(self) -> bool:
        return b"chunked" in values_of(self.fields, b"transfer-encoding").lower()

    @property
    def length(self) -> int | None:
        text = values_of(self.fields, b"content-length")
        return int(text) if text.isdigit() else None

    def field(self, name: bytes) -> str:
        return values_of(self.fields, name).decode("latin-1")


def values_of(fields: Iterable[Field], name: bytes) -> bytes:
    """The values of a field, joined as one; empty where there is none. ``name`` is lower-case."""
    return b", ".join(value.strip() for key, value in fields if key.lower() == name)


def origin_form(target: bytes) -> bytes:
    """A target without scheme and authority, which clients of forward proxies send."""
    scheme, found, rest = target.partition(b"://")
    if found and scheme.lower() in (b"http", b"https"):
        slash = rest.find(b"/")
        return rest[slash:] if slash >= 0 else b"/"
    return target


def is_passed(target: bytes, prefixes: Sequence[str]) -> bool:
    """Whether the target's path lies under one of the prefixes.

    A path that climbs (``/v1/../metrics``) lies under none: the server might follow it.
    """
    path = unquote_to_bytes(origin_form(target).partition(b"?")[0])
    if not path.startswith(b"/") or b".." in path.replace(b"\\", b"/").split(b"/"):
        return False
    for prefix in prefixes:
        root = prefix.rstrip("/").encode()
        if path == root or path.startswith(root + b"/"):
            return True
    return False


def request_head(
    head: RequestHead,
    *,
    prefix: str,
    authority: str,
    without: Collection[bytes] = (),
    extra: Sequence[Field] = (),
    length: int | None = None,
) -> bytes:
    """The request as the upstream gets it. ``prefix`` is the upstream's path before /v1.

    Host becomes the upstream's ``authority``. ``without`` names fields to leave out, ``extra`` is
    added, and ``length`` replaces the length and framing of the body where it was changed.
    """
    skip = _skipped(head.fields) | set(without)
    if length is not None:
        skip.add(b"content-length")
    lines = [head.method + b" " + prefix.encode() + origin_form(head.target) + b" HTTP/1.1"]
    host = b"Host: " + authority.encode()
    seen_host = False
    for key, value in head.fields:
        name = key.lower()
        if name == b"host":
            lines += [] if seen_host else [host]
            seen_host = True
        elif name not in skip:
            lines.append(key + b": " + value)
    if not seen_host:
        lines.insert(1, host)
    if length is not None:
        lines.append(b"Content-Length: %d" % length)
    elif head.chunked:
        lines.append(b"Transfer-Encoding: chunked")
    lines += [key + b": " + value for key, value in extra]
    return b"\r\n".join(lines) + b"\r\n\r\n"


def keyless(fields: Sequence[Field]) -> set[bytes]:
    """Names of those fields that carry a key or a cookie."""
    return {key.lower() for key, _ in fields} & _KEYS


def answer_head(head: AnswerHead, *, chunked: bool, close: bool) -> bytes:
    """The answer as the client gets it. ``chunked``: the body is framed so; ``close``: the
    connection ends with it."""
    skip = _skipped(head.fields)
    lines = [b"HTTP/1.1 %d %b" % (head.status, head.reason)]
    lines += [key + b": " + value for key, value in head.fields if key.lower() not in skip]
    if chunked:
        lines.append(b"Transfer-Encoding: chunked")
    if close:
        lines.append(b"Connection: close")
    return b"\r\n".join(lines) + b"\r\n\r\n"


def own_answer(
    status: int,
    body: bytes,
    *,
    kind: str = "application/json",
    close: bool = False,
    body_sent: bool = True,
) -> bytes:
    """A whole answer of the proxy's own. ``body_sent``: False in answer to HEAD."""
    lines = [
        f"HTTP/1.1 {status} {_REASONS.get(status, 'Error')}",
        f"Content-Type: {kind}",
        f"Content-Length: {len(body)}",
        "Cache-Control: no-store",
        "X-Content-Type-Options: nosniff",
    ]
    if close:
        lines.append("Connection: close")
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + (body if body_sent else b"")


def error_body(status: int, message: str) -> bytes:
    """An error as OpenAI-compatible clients read it."""
    error = {"message": message, "type": "loadjudge_proxy_error", "param": None, "code": status}
    return orjson.dumps({"error": error})


def chunk(data: bytes) -> bytes:
    """One chunk of a chunked body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def last_chunk(trailers: Sequence[Field]) -> bytes:
    """The end of a chunked body."""
    return b"0\r\n" + b"".join(key + b": " + value + b"\r\n" for key, value in trailers) + b"\r\n"


def _skipped(fields: Iterable[Field]) -> set[bytes]:
    named = {name.strip() for name in values_of(fields, b"connection").lower().split(b",")}
    return set(_OF_THE_CONNECTION | (named - _NEVER_SKIPPED))


_REASONS = {
    200: "OK",
    400: "Bad Request",
    404: "Not Found",
    405: "Method Not Allowed",
    408: "Request Timeout",
    500: "Internal Server Error",
    431: "Request Header Fields Too Large",
    501: "Not Implemented",
    502: "Bad Gateway",
    504: "Gateway Timeout",
}
