"""How engines call what loadjudge asks beside completions: tokens and templates.

Data for ``client.http.PlainClient``. vLLM's own words are the default: most engines follow it.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class Dialect:
    """Paths and keys. ``None``: the engine has no such call."""

    tokenize: str | None = "/tokenize"
    text: str = "prompt"  # key of the text in the request
    specials: str = "add_special_tokens"
    ids: str = "tokens"  # key of the ids in the answer
    more: dict[str, Any] = field(default_factory=dict)  # of every tokenize request
    messages: bool = True  # /tokenize takes messages and tools, and applies the chat template
    template: str | None = None  # else: a call that renders messages, answering {"prompt": …}
    detokenize: str | None = "/detokenize"
    decoded: str = "prompt"  # key of the text in the answer


VLLM = Dialect()
SGLANG = Dialect(messages=False, decoded="text")
LLAMACPP = Dialect(
    text="content",
    specials="add_special",
    messages=False,
    template="/apply-template",
    decoded="content",
)
LMDEPLOY = Dialect(
    tokenize="/v1/encode",
    text="input",
    specials="add_bos",
    ids="input_ids",
    messages=False,
    detokenize=None,
)
