"""What one exchange through the proxy came to, and those who are told of it."""

from dataclasses import dataclass
from typing import Protocol

from loadjudge.proxy.upstream import ErrorKind
from loadjudge.record.values import Arm

# Paths that are told apart; every other is "other", so that whoever counts by path is bounded.
PATHS = (
    *("/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings"),
    *("/v1/models", "/v1/messages", "/v1/rerank", "/v1/score", "/tokenize", "/detokenize"),
)
OTHER = "other"


@dataclass(frozen=True, slots=True)
class Exchange:
    """One request and its answer, over. Times in seconds; None where it can't be known.

    ``arm`` is who answered: ``stock`` is the upstream. ``mirrored``: no user saw it. Times run from
    the last byte of the request passed on. Of a reply that was not streamed no first token is seen.
    Tokens are the engine's ids where it sends them, else what it reports.
    """

    arm: Arm
    mirrored: bool
    path: str  # one of PATHS, or OTHER
    status: int | None  # of the upstream; None where it gave none
    error: ErrorKind | None
    stream: bool  # the answer is an event stream
    model: str | None  # as the upstream says
    prompt_tokens: int | None
    output_tokens: int | None
    ttft_s: float | None  # to the first token of any channel
    ttfot_s: float | None  # to the first token of the content
    itl_s: tuple[float, ...]  # one a read that brought tokens, but the first: seconds a token
    itl_tokens: tuple[float, ...]  # how many tokens each of them stands for
    tpot_s: float | None
    e2el_s: float | None  # to the last token; of what is no stream, to the end of the body
    seconds: float | None  # to the last byte
    # The proxy's own share: from reads to writes, of request and answer's head.
    added_s: float | None
    request_bytes: int
    answer_bytes: int  # of its body, as it passed
    session: str | None = None  # the conversation, where --split or --mirror asked for it


class Observer(Protocol):
    """Whoever is told of each exchange; called on the event loop, must return at once."""

    def __call__(self, exchange: Exchange, /) -> None: ...


def known_path(path: str) -> str:
    """The path as it is counted."""
    return path if path in PATHS else OTHER
