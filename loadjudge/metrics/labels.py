"""Labels with bounds: whatever a run or a user's traffic holds, the page stays small."""

from typing import get_args

from loadjudge.client.failures import FailureKind

OTHER = "other"
ARMS = frozenset(("stock", "candidate", "mirror"))
ERRORS = frozenset((*get_args(FailureKind), "timeout", "client_gone", "client_stalled"))
GATES = frozenset(
    (
        "memory", "fidelity", "likelihood", "argmax", "agreement", "lengths", "support", "ranks",
        "excess", "integrity", "text_test",
    )
)  # fmt: skip
PATHS = frozenset(
    (
        "/v1/chat/completions", "/v1/completions", "/v1/responses", "/v1/embeddings",
        "/v1/models", "/v1/messages", "/v1/rerank", "/v1/score", "/tokenize", "/detokenize",
    )
)  # fmt: skip
FIGURES = frozenset(("ttft_s", "ttfot_s", "tpot_s", "itl_s", "e2el_s", "output_tokens"))
POSITIONS = 16  # of a draft that have a label each; further ones share "16+"
WORKLOADS = 64
SLOS = 8


def arm(name: str) -> str:
    return name if name in ARMS else OTHER


def error(kind: str) -> str:
    return kind if kind in ERRORS else OTHER


def gate(name: str) -> str:
    return name if name in GATES else OTHER


def path(given: str) -> str:
    """The path without its query; one that no OpenAI client asks for is "other"."""
    bare = given.partition("?")[0].rstrip("/")
    return bare if bare in PATHS else OTHER


def figure(name: str) -> str:
    return name if name in FIGURES else OTHER


def position(index: int) -> str:
    return str(index) if index < POSITIONS else f"{POSITIONS}+"


def status(code: int | None) -> str:
    """``2xx`` to ``5xx``; "none" where no answer came."""
    if code is None:
        return "none"
    return f"{code // 100}xx" if 100 <= code < 600 else OTHER


class Names:
    """Names that users give: as many as a run may sensibly have, then "other"."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def __call__(self, name: str) -> str:
        if name not in self._known and len(self._known) < self._most:
            self._known.add(name)
        return name if name in self._known else OTHER
