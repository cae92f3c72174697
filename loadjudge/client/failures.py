"""How a call fails: always with a kind, and with what had arrived by then."""

from typing import Literal

from loadjudge.wire.reply import Reply

FailureKind = Literal[
    "connect",  # no connection: refused, no such host, no such socket, certificate
    "connect_timeout",
    "first_byte_timeout",  # no byte of the body
    "idle_timeout",  # the body stopped coming
    "reset",  # the connection failed, or closed before any answer
    "cut",  # the answer ended in the middle
    "http",  # a status other than 200
    "stream_error",  # the server reported an error inside the stream
    "malformed",  # no HTTP, no event stream, or no chat chunk
    "cancelled",  # the client was closed
]


class CallError(Exception):
    """A call that brought no whole reply. Times are monotonic, in nanoseconds.

    ``reply_so_far`` is what had been streamed, ``None`` where no stream had begun.
    ``t_sent_ns`` is ``None`` where the request was never sent.
    """

    def __init__(
        self,
        kind: FailureKind,
        message: str,
        *,
        t_scheduled_ns: int,
        t_failed_ns: int,
        t_sent_ns: int | None = None,
        status: int | None = None,
        reply_so_far: Reply | None = None,
        retries: int = 0,
        waits: int = 0,
    ) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind: FailureKind = kind
        self.message = message
        self.status = status
        self.reply_so_far = reply_so_far
        self.t_scheduled_ns = t_scheduled_ns
        self.t_sent_ns = t_sent_ns
        self.t_failed_ns = t_failed_ns
        self.retries = retries
        self.waits = waits
