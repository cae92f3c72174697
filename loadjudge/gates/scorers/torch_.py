"""The target's weights in the judge's hands: full logits from transformers on a CPU or a GPU.

Needs the extra ``scorer`` (torch and transformers), imported here only when a scorer is made.
Replies that wait are scored as one batch, padded on the right: in a causal model no position sees
what follows it. Hidden states become logits a few positions at a time, so that memory is bounded
by the batch and the vocabulary, not by their product.
"""

import asyncio
import importlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from loadjudge.errors import JudgeError, Status
from loadjudge.gates.lookup import proposals
from loadjudge.gates.scorers.scorer import Refused
from loadjudge.gates.terms import Ids, joined, terms
from loadjudge.record.values import Floats, Terms
from loadjudge.wire.request import Sampling

_CELLS = 2**23  # logits at once: 32 MiB as float32
_BESIDE = 64  # more than top k asks for, so that equals of its last are ranked by id
_ALIKE = 2e-2  # nats: bfloat16's rounding between the two ways to the logits


@dataclass(frozen=True, slots=True)
class _Asked:
    prompt: tuple[int, ...]
    reply: tuple[int, ...]
    sampling: Sampling
    answer: asyncio.Future[Terms]

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.reply)


class TorchScorer:
    """Scores with ``model``: a directory, or a loaded causal language model.

    ``device`` None takes a GPU where there is one. ``end_ids`` None takes the model's own.
    ``dtype`` is what a directory's model computes in: the engine's own. ``batch_tokens`` bounds a
    batch, padding included.
    """

    def __init__(
        self,
        model: Any,
        *,
        end_ids: Sequence[int] | None = None,
        device: str | None = None,
        dtype: str = "bfloat16",
        batch_tokens: int = 16384,
        at_once: int = 16,
    ) -> None:
        self._torch: Any = _needed("torch")
        self.name = "torch"
        if isinstance(model, str | Path):
            self.name = f"torch on {model}"
            model = _load(Path(model), getattr(self._torch, dtype))
        if device is None:
            device = "cuda" if self._torch.cuda.is_available() else "cpu"
        self._model: Any = model.to(device).eval()
        self._device = device
        self.end_ids = _end_ids(model) if end_ids is None else tuple(end_ids)
        self.at_once = at_once
        self._batch_tokens = batch_tokens
        self._waiting: list[_Asked] = []
        self._busy = asyncio.Lock()
        self._head = self._plain_head()

    async def score(
        self, prompt_ids: Sequence[int], reply_ids: Sequence[int], sampling: Sampling
    ) -> tuple[Terms, bool]:
        """Exact terms. The work is done in a thread, where torch lets the event loop go on."""
        prompt, reply = tuple(prompt_ids), tuple(reply_ids)
        vocabulary = self._model.get_input_embeddings().num_embeddings
        if not prompt or not all(0 <= token < vocabulary for token in (*prompt, *reply)):
            raise Refused("the prompt is empty or holds a token that the model does not have")
        longest = getattr(self._model.config, "max_position_embeddings", None)
        if longest is not None:
            reply = reply[: max(0, longest + 1 - len(prompt))]
        if not reply:
            if reply_ids:
                raise Refused("there is no room for the reply behind its prompt")
            return joined([]), True
        asked = _Asked(prompt, reply, sampling, asyncio.get_running_loop().create_future())
        self._waiting.append(asked)
        try:
            async with self._busy:
                while not asked.answer.done():
                    await self._score_some()
        except asyncio.CancelledError:
            asked.answer.cancel()
            raise
        return asked.answer.result(), True

    async def _score_some(self) -> None:
        """Scores those that have waited longest, as many as fit in a batch."""
        batch: list[_Asked] = []
        longest = 0
        while self._waiting:
            longest = max(longest, self._waiting[0].length)
            if batch and longest * (len(batch) + 1) > self._batch_tokens:
                break
            asked = self._waiting.pop(0)
            if not asked.answer.cancelled():
                batch.append(asked)
        try:
            results = await asyncio.to_thread(self._forward, batch)
        except asyncio.CancelledError:
            self._waiting[:0] = batch  # only one of them is given up
            raise
        except Exception as e:  # torch's own are RuntimeErrors, out of memory too
            failed = JudgeError(f"{self.name} failed: {e}", Status.RUN)
            for asked in batch:
                if not asked.answer.done():
                    asked.answer.set_exception(failed)
            return
        for asked, result in zip(batch, results, strict=True):
            if not asked.answer.done():
                asked.answer.set_result(result)

    def _forward(self, batch: Sequence[_Asked]) -> list[Terms]:
        torch = self._torch
        with torch.inference_mode():
            if self._head is None:
                return [self._terms(one, self._logits(one)) for one in batch]
            width = max(one.length for one in batch) - 1  # nothing follows the last token
            ids = torch.zeros((len(batch), width), dtype=torch.long)
            mask = torch.zeros_like(ids)
            for row, one in enumerate(batch):
                ids[row, : one.length - 1] = torch.tensor((*one.prompt, *one.reply)[:-1])
                mask[row, : one.length - 1] = 1
            hidden = self._hidden(ids.to(self._device), mask.to(self._device))
            return [
                self._terms(one, self._heads(hidden[row, len(one.prompt) - 1 : one.length - 1]))
                for row, one in enumerate(batch)
            ]

    def _hidden(self, ids: Any, mask: Any) -> Any:
        out = self._model.base_model(input_ids=ids, attention_mask=mask, use_cache=False)
        return out.last_hidden_state

    def _heads(self, hidden: Any) -> Iterator[Any]:
        """Logits [r, V] of consecutive positions of one reply."""
        head: Any = self._head
        rows = max(1, _CELLS // head.weight.shape[0])
        return (head(part) for part in hidden.split(rows))

    def _logits(self, one: _Asked) -> Iterator[Any]:
        """The same by the model's own way, where its head is not all there is to it."""
        ids = self._torch.tensor([(*one.prompt, *one.reply)[:-1]], device=self._device)
        kept = len(one.reply)
        logits = self._model(input_ids=ids, logits_to_keep=kept, use_cache=False).logits[0]
        return iter(logits.split(max(1, _CELLS // logits.shape[1])))

    def _terms(self, one: _Asked, blocks: Iterator[Any]) -> Terms:
        parts = []
        copies = proposals(one.prompt, one.reply)
        at = 0
        for logits in blocks:
            reply, some = one.reply[at : at + len(logits)], copies[at : at + len(logits)]
            at += len(logits)
            logp = logits.float().log_softmax(dim=-1)
            own = logp[range(len(reply)), reply].double().cpu().numpy()
            rows, ids = self._rows(logp, one.sampling)
            parts.append(terms(rows, ids, reply, one.sampling, self.end_ids, own, some))
        return joined(parts)

    def _rows(self, logp: Any, sampling: Sampling) -> tuple[Floats, Ids | None]:
        """All of p, or what top k needs of it: of 150,000 tokens the rest are not moved."""
        k = max(0, sampling.top_k or 0) + _BESIDE
        if k == _BESIDE or k >= logp.shape[1]:
            return logp.cpu().numpy(), None
        values, ids = logp.topk(k, dim=-1)
        return values.double().cpu().numpy(), ids.cpu().numpy().astype(np.int64)

    def _plain_head(self) -> Any | None:
        """The output layer, where hidden states and it give the model's own logits.

        Some models scale or cap their logits behind it. So both ways are tried, on eight tokens.
        """
        head = self._model.get_output_embeddings()
        if head is None or self._model.base_model is self._model:
            return None
        torch = self._torch
        with torch.inference_mode():
            ids = torch.arange(8, device=self._device)[None] % head.weight.shape[0]
            ours = head(self._hidden(ids, torch.ones_like(ids))).float().log_softmax(dim=-1)
            theirs = self._model(input_ids=ids, use_cache=False).logits.float()
            alike = (ours - theirs.log_softmax(dim=-1)).abs().max().item() <= _ALIKE
        return head if alike else None


def _needed(name: str) -> Any:
    try:
        return importlib.import_module(name)
    except ImportError:
        raise JudgeError(
            f"scoring with a model's weights needs {name}: pip install 'loadjudge[scorer]'"
        ) from None


def _load(directory: Path, dtype: Any) -> Any:
    if not directory.is_dir():
        raise JudgeError(f"{directory} is no model directory")
    try:
        return _needed("transformers").AutoModelForCausalLM.from_pretrained(
            str(directory), dtype=dtype, local_files_only=True
        )
    except (OSError, ValueError, KeyError) as e:
        raise JudgeError(f"the model in {directory} can't be loaded: {e}") from None


def _end_ids(model: Any) -> tuple[int, ...]:
    """The model's end tokens, as its generation configuration has them."""
    for configuration in (getattr(model, "generation_config", None), model.config):
        ends = getattr(configuration, "eos_token_id", None)
        if ends is not None:
            return tuple(ends) if isinstance(ends, list | tuple) else (int(ends),)
    return ()
