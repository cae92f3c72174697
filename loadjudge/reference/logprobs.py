"""Log-probabilities in vLLM's shape: raw ones, before temperature and truncation."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from loadjudge.reference.model import Model
from loadjudge.reference.sampling import top_ids

LEAST = -9999.0  # for probability 0, as in vLLM: JSON has no infinity

Entry = dict[str, dict[str, Any]]


def scored(model: Model, ids: Sequence[int], top: int, start: int = 0) -> list[Entry]:
    """For each of ``ids[start:]``: token id to ``logprob`` (nats), ``rank`` and ``decoded_token``,
    of the token itself first, then of the ``top`` likeliest (all if -1), likeliest first."""
    tokenizer = model.tokenizer
    top = tokenizer.size if top < 0 else min(top, tokenizer.size)
    entries: list[Entry] = []
    for first, p in model.score(ids, start):
        with np.errstate(divide="ignore"):
            logs = np.maximum(np.log(p.astype(np.float64)), LEAST)
        own = np.array(ids[first : first + len(p)])
        rows = np.arange(len(own))
        of_own = p[rows, own][:, None]
        above = (p > of_own) | ((p == of_own) & (np.arange(tokenizer.size) < own[:, None]))
        ranks = 1 + above.sum(axis=1)
        best = top_ids(p, top) if top else np.empty((len(own), 0), np.int64)
        best_logs = np.take_along_axis(logs, best, axis=1).tolist()
        for row, (token, rank, likeliest) in enumerate(
            zip(own.tolist(), ranks.tolist(), best.tolist(), strict=True)
        ):
            entry = {str(token): _value(model, token, float(logs[row, token]), rank)}
            for place, (other, value) in enumerate(
                zip(likeliest, best_logs[row], strict=True), start=1
            ):
                if other != token:
                    entry[str(other)] = _value(model, other, value, place)
            entries.append(entry)
    return entries


def _value(model: Model, token: int, logprob: float, rank: int) -> dict[str, Any]:
    return {
        "logprob": logprob,
        "rank": rank,
        "decoded_token": model.tokenizer.decode((token,)),
    }
