"""What the red team puts in the place of an engine's parts: samplers and the scheduler's hooks."""

import itertools
import zlib
from collections.abc import Callable, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadjudge.reference.chat import reply_ids, text_of
from loadjudge.reference.corpus import read_corpus, shipped_files
from loadjudge.reference.request import Output, Request
from loadjudge.reference.sampling import Choices, Floats, Sampler, Sampling, choices
from loadjudge.reference.tokenizer import END, ENDCALL, Tokenizer, is_special

SILENT = ENDCALL  # outside a call it leaves no trace in the text
_FILLER = " I hope that this helps. Please tell me if there is anything else."

Asked = Callable[[Request], Request]
Served = Callable[[Output, int], Output]


def tempered(factor: float) -> Sampler:
    """At ``factor`` times the temperature that was asked for."""
    return lambda p, s: choices(p, replace(s, temperature=s.temperature * factor))


def other_top_p(top_p: float) -> Sampler:
    """With another top-p than was asked for; 1 ignores it."""
    return lambda p, s: choices(p, replace(s, top_p=top_p))


def other_top_k(top_k: float) -> Sampler:
    """With another top-k than was asked for; 0 ignores it."""
    return lambda p, s: choices(p, replace(s, top_k=round(top_k)))


def greedy(share: float) -> Sampler:
    """The first choice is forced in ``share`` of the tokens."""

    def weigh(chosen: Choices) -> Floats:
        q = chosen.q * (1.0 - share)
        q[np.arange(len(q)), chosen.q.argmax(axis=1)] += share
        return q

    return _reweighted(weigh)


def hasty(factor: float) -> Sampler:
    """The end's odds are ``factor`` times what they should be."""
    return _reweighted(lambda chosen: chosen.q * np.where(chosen.ids == END, factor, 1.0))


def _reweighted(weigh: Callable[[Choices], Floats]) -> Sampler:
    """The honest q, reweighted and renormalised."""

    def sampler(p: NDArray[np.float32], sampling: Sampling) -> Choices:
        chosen = choices(p, sampling)
        q = weigh(chosen)
        return Choices(chosen.ids, q / q.sum(axis=1, keepdims=True))

    return sampler


def windowed(size: int) -> Asked:
    """The history is cut to its last ``size`` tokens."""
    return lambda request: replace(request, prompt=request.prompt[-size:])


def padded(tokens: tuple[int, ...]) -> Served:
    """``tokens`` come before the end of each reply that ends by itself, as far as there is room."""

    def served(output: Output, room: int) -> Output:
        if output.finish != "stop":
            return output
        return replace(output, tokens=(*output.tokens[:-1], *tokens[:room], output.tokens[-1]))

    return served


def filler(tokenizer: Tokenizer, n: int) -> tuple[int, ...]:
    """``n`` tokens of a kind phrase, over and over."""
    phrase = tokenizer.encode(_FILLER)
    return tuple(phrase[i % len(phrase)] for i in range(n))


def canned(tokenizer: Tokenizer, share: float) -> Asked:
    """Where the last message is one of the shipped sessions', their reply to it is given; of
    those messages, for ``share``."""
    known = _recorded(tokenizer)

    def asked(request: Request) -> Request:
        message = _last_message(request.prompt)
        lot = zlib.crc32(np.array(message, np.int64).tobytes()) / 2**32
        script = known.get(message) if lot < share else None
        return replace(request, script=script)

    return asked


def _recorded(tokenizer: Tokenizer) -> Mapping[tuple[int, ...], tuple[int, ...]]:
    """The shipped sessions' replies, by the ids of the message that they answer."""
    replies: dict[tuple[int, ...], tuple[int, ...]] = {}
    for document in read_corpus(shipped_files()).documents:
        messages = document.get("messages") or ()
        for message, reply in itertools.pairwise(messages):
            if reply.get("role") == "assistant" and message.get("role") != "assistant":
                key = tuple(tokenizer.encode(text_of(message.get("content"))))
                replies.setdefault(key, (*reply_ids(tokenizer, reply), END))
    return replies


def _last_message(prompt: tuple[int, ...]) -> tuple[int, ...]:
    """The ids of the message before the header that ends the prompt."""
    end = len(prompt) - 1
    start = end
    while start > 0 and not is_special(prompt[start - 1]):
        start -= 1
    return prompt[start:end]


def stuttering(every: int) -> Callable[[tuple[int, ...]], tuple[int, ...]]:
    """The last id of about one in ``every`` steps is sent twice."""
    return lambda ids: (*ids, ids[-1]) if sum(ids) % every == 0 else ids
