"""Response bodies of chat and plain completions, whole and in chunks, as vLLM writes them."""

import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from loadjudge.reference.chat import Delta

Kind = Literal["chat", "completion"]


def usage(prompt: int, completion: int, cached: int) -> dict[str, Any]:
    """Token counts. ``cached``: of the prompt's, those that the prefix cache held."""
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


@dataclass
class Writer:
    """Writes one reply's bodies: the same id and time in each."""

    kind: Kind
    model: str
    with_ids: bool  # return_token_ids
    prompt: Sequence[int]
    id: str = ""
    created: int = field(default_factory=lambda: int(time.time()))
    _call_ids: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.id = ("chatcmpl-" if self.kind == "chat" else "cmpl-") + uuid.uuid4().hex

    def _frame(self, object_: str, choices: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "id": self.id,
            "object": object_,
            "created": self.created,
            "model": self.model,
            "choices": choices,
        }

    @property
    def _chunk_object(self) -> str:
        return "chat.completion.chunk" if self.kind == "chat" else "text_completion"

    def first(self) -> dict[str, Any] | None:
        """The role-only chunk that opens a chat reply; none in a plain completion."""
        if self.kind != "chat":
            return None
        delta = {"role": "assistant", "content": ""}
        chunk = self._frame(
            self._chunk_object,
            [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": None}],
        )
        if self.with_ids:
            chunk["prompt_token_ids"] = list(self.prompt)
        return chunk

    def chunk(
        self, delta: Delta, ids: Sequence[int], finish: str | None, *, opening: bool
    ) -> dict[str, Any]:
        """One verify step's chunk. ``opening``: whether it is the reply's first with tokens."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
        if self.kind == "chat":
            choice["delta"] = self._chat_delta(delta)
        else:
            choice["text"] = delta.content
        if self.with_ids:
            choice["token_ids"] = list(ids)
            if self.kind == "completion" and opening:
                choice["prompt_token_ids"] = list(self.prompt)
        return self._frame(self._chunk_object, [choice])

    def _chat_delta(self, delta: Delta) -> dict[str, Any]:
        out: dict[str, Any] = {}
        if delta.content or not delta.calls:
            out["content"] = delta.content
        if delta.calls:
            out["tool_calls"] = []
            for call in delta.calls:
                piece: dict[str, Any] = {"index": call.index}
                function: dict[str, Any] = {"arguments": call.arguments}
                if call.name is not None:
                    piece |= {"id": self.call_id(call.index), "type": "function"}
                    function = {"name": call.name, **function}
                out["tool_calls"].append(piece | {"function": function})
        return out

    def closing(self, counts: Mapping[str, Any]) -> dict[str, Any]:
        """The usage chunk, which has no choices."""
        return self._frame(self._chunk_object, []) | {"usage": counts}

    def call_id(self, index: int) -> str:
        """The id of call ``index``."""
        while len(self._call_ids) <= index:
            self._call_ids.append(f"call_{uuid.uuid4().hex[:24]}")
        return self._call_ids[index]

    def tool_calls(self, calls: Sequence[tuple[str, str]]) -> list[dict[str, Any]]:
        """Finished calls, given as (name, arguments)."""
        return [
            {
                "id": self.call_id(i),
                "type": "function",
                "function": {"name": name, "arguments": arguments},
            }
            for i, (name, arguments) in enumerate(calls)
        ]

    def whole(
        self,
        content: str,
        calls: Sequence[tuple[str, str]],
        ids: Sequence[int],
        finish: str | None,
        counts: Mapping[str, Any],
    ) -> dict[str, Any]:
        """The body of a reply that isn't streamed."""
        choice: dict[str, Any] = {"index": 0, "logprobs": None, "finish_reason": finish}
        if self.kind == "chat":
            choice["message"] = {
                "role": "assistant",
                "content": content if content or not calls else None,
                "tool_calls": self.tool_calls(calls),
            }
        else:
            choice["text"] = content
        name = "chat.completion" if self.kind == "chat" else "text_completion"
        body = self._frame(name, [choice]) | {"usage": dict(counts)}
        if self.with_ids:
            choice["token_ids"] = list(ids)
            (body if self.kind == "chat" else choice)["prompt_token_ids"] = list(self.prompt)
        return body
