"""Which conversation a request belongs to, and which arm serves it. Pure."""

import hashlib
from dataclasses import dataclass
from typing import Any

import orjson

from loadjudge.proxy.joining import canonical
from loadjudge.random import derive
from loadjudge.wire.request import Sampling


@dataclass(frozen=True, slots=True)
class Asked:
    """What a chat request says that the proxy goes by."""

    session: str
    sampling: Sampling | None  # None where it leaves open how tokens are drawn
    ids: bool  # it asks for token ids itself


_DRAWING = frozenset(("temperature", "top_p", "top_k", "seed"))
# What makes another distribution of the target's, which the scorer knows nothing of.
_RESHAPING = frozenset(
    (
        *("min_p", "typical_p", "logit_bias", "allowed_token_ids", "bad_words", "min_tokens"),
        *("presence_penalty", "frequency_penalty", "repetition_penalty", "length_penalty"),
        *("ignore_eos", "stop", "stop_token_ids", "use_beam_search", "logits_processors"),
        *("response_format", "structured_outputs", "guided_json", "guided_regex"),
        *("guided_choice", "guided_grammar"),
    )
)


def asked_of(body: bytes) -> Asked | None:
    """What a request's body says; None where it is no chat request."""
    try:
        request = orjson.loads(body)
        session = conversation(request)
    except (orjson.JSONDecodeError, ValueError, TypeError, AttributeError):
        return None
    return Asked(session, sampling_of(request), "return_token_ids" in request)


def conversation(request: dict[str, Any]) -> str:
    """A name for the conversation: the model and the messages up to the first of the user.

    Every later request of it begins with them, so it needs no memory and survives a restart.
    Conversations that begin alike, word for word, count as one. Raises ValueError.
    """
    messages = request.get("messages")
    if not isinstance(messages, list) or not messages:
        raise ValueError("no messages")
    mark = hashlib.blake2b(str(request.get("model")).encode(), digest_size=16)
    for message in messages:
        mark.update(canonical(message) + b"\n")
        if message.get("role") == "user":
            break
    return mark.hexdigest()


def to_candidate(session: str, share: float, seed: int) -> bool:
    """Whether that share of sessions, drawn by ``seed``, holds this one."""
    return derive(seed, "split", session) < share * 2**63


def sampling_of(request: dict[str, Any]) -> Sampling | None:
    """How the request has tokens drawn, where it says so.

    A temperature must be given: a server's own default is not seen here. What is left out of top_p
    and top_k is taken as not applied, OpenAI's default.
    """
    temperature = request.get("temperature")
    if not isinstance(temperature, int | float) or any(
        request.get(name) not in (None, [], {}, 0, False) for name in _RESHAPING
    ):
        return None
    top_p, top_k = request.get("top_p"), request.get("top_k")
    return Sampling(
        temperature=float(temperature),
        top_p=1.0 if top_p is None else float(top_p),
        top_k=int(top_k) if top_k and top_k > 0 else None,
    )


def with_token_ids(body: bytes) -> bytes | None:
    """The body with ``return_token_ids`` set, all other bytes as they were; None: it is no object.

    The new member comes first: where the client has set it as well, its own counts.
    """
    at = body.find(b"{")
    if at < 0 or body[:at].strip():
        return None
    rest = body[at + 1 :]
    comma = b"" if rest.lstrip().startswith(b"}") else b","
    return body[: at + 1] + b'"return_token_ids":true' + comma + rest
