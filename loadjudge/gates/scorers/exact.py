"""The embedded engine's own model, in this process: q as it is."""

import asyncio
from collections.abc import Sequence

import numpy as np

from loadjudge.gates.lookup import proposals
from loadjudge.gates.scorers.scorer import Refused
from loadjudge.gates.terms import joined, terms
from loadjudge.record.values import Terms
from loadjudge.reference.logprobs import LEAST
from loadjudge.reference.model import Model
from loadjudge.reference.store import shipped_model
from loadjudge.reference.tokenizer import END
from loadjudge.wire.request import Sampling


class ExactScorer:
    """Scores with ``model``, by default the one that ships."""

    name = "the embedded engine's model"
    end_ids = (END,)
    at_once = 1

    def __init__(self, model: Model | None = None) -> None:
        self._model = shipped_model() if model is None else model

    async def score(
        self, prompt_ids: Sequence[int], reply_ids: Sequence[int], sampling: Sampling
    ) -> tuple[Terms, bool]:
        """Exact terms. Gives way to the event loop after every 128 tokens, some 20 ms of work."""
        ids = [*prompt_ids, *reply_ids]
        size = self._model.tokenizer.size
        if not prompt_ids or not all(0 <= token < size for token in ids):
            raise Refused("the prompt is empty or holds a token that the model does not have")
        start, parts = len(prompt_ids), []
        copies = proposals(prompt_ids, reply_ids)
        for at, p in self._model.score(ids, start):
            with np.errstate(divide="ignore"):
                logp = np.maximum(np.log(p.astype(np.float64)), LEAST)
            own = ids[at : at + len(p)]
            some = copies[at - start : at - start + len(p)]
            parts.append(terms(logp, None, own, sampling, self.end_ids, copies=some))
            await asyncio.sleep(0)
        return joined(parts), True
