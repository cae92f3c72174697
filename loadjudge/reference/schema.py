"""Request bodies: JSON in, checked values out. Fields without use here are ignored."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from loadjudge.reference.sampling import Sampling

_Count = Annotated[int, Field(ge=0)]


class _Options(BaseModel):
    model_config = ConfigDict(extra="ignore")


class StreamOptions(_Options):
    """OpenAI's, and vLLM's ``continuous_usage_stats``."""

    include_usage: bool = False
    continuous_usage_stats: bool = False


class Generation(_Options):
    """What chat and plain completions share. Defaults are vLLM's."""

    model: str | None = None
    max_tokens: Annotated[int, Field(ge=1)] | None = None
    min_tokens: _Count = 0
    temperature: Annotated[float, Field(ge=0, le=100)] | None = None
    top_p: Annotated[float, Field(gt=0, le=1)] | None = None
    top_k: Annotated[int, Field(ge=-1)] | None = None
    n: Literal[1] | None = None
    seed: int | None = None
    stop: str | list[str] | None = None
    ignore_eos: bool = False
    stream: bool = False
    stream_options: StreamOptions | None = None
    return_token_ids: bool | None = None
    cache_salt: str | None = None
    prompt_logprobs: Annotated[int, Field(ge=-1)] | None = None

    def sampling(self) -> Sampling:
        """How the reply is drawn."""
        return Sampling(
            temperature=1.0 if self.temperature is None else self.temperature,
            top_k=max(0, self.top_k or 0),
            top_p=1.0 if self.top_p is None else self.top_p,
        )

    def stops(self) -> list[str]:
        """The stop strings."""
        return [self.stop] if isinstance(self.stop, str) else list(self.stop or ())


class ChatRequest(Generation):
    """Body of ``/v1/chat/completions``."""

    messages: list[dict[str, Any]]
    tools: list[dict[str, Any]] | None = None
    tool_choice: Any = None
    max_completion_tokens: Annotated[int, Field(ge=1)] | None = None
    add_generation_prompt: bool = True
    logprobs: bool | None = None
    top_logprobs: _Count | None = None

    def offered_tools(self) -> list[dict[str, Any]]:
        """The tools that the reply may call."""
        return [] if self.tool_choice == "none" else self.tools or []


class CompletionRequest(Generation):
    """Body of ``/v1/completions``."""

    prompt: str | list[int]
    logprobs: _Count | None = None
    echo: Literal[False] | None = None


class TokenizeRequest(_Options):
    """Body of ``/tokenize``: one of the two forms."""

    prompt: str | None = None
    messages: list[dict[str, Any]] | None = None
    tools: list[dict[str, Any]] | None = None
    add_generation_prompt: bool = True


class DetokenizeRequest(_Options):
    """Body of ``/detokenize``."""

    tokens: list[int]


def message_of(error: Mapping[str, Any]) -> str:
    """One of pydantic's errors as a sentence."""
    where = ".".join(str(part) for part in error["loc"])
    return f"{where}: {error['msg']}" if where else str(error["msg"])
