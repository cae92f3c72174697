"""An arm's endpoint: what it can do, found out by asking, and its figures over time."""

from dataclasses import dataclass
from typing import Any

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.servers.counters import kv_tokens
from loadjudge.servers.families import FAMILIES, recognise


@dataclass(frozen=True, slots=True)
class Abilities:
    """What an endpoint can do for the judge."""

    model: str
    max_model_len: int | None
    version: str | None
    family: str
    token_ids: bool  # return_token_ids is understood
    tokenize: bool
    detokenize: bool
    prompt_logprobs: bool
    prefix_reset: bool
    salts: bool
    kv_tokens: float | None  # size of the KV cache in tokens

    def describe(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__dataclass_fields__}


async def ask_abilities(http: PlainClient, model: str | None, family: str | None) -> Abilities:
    """Asks an endpoint what it can do. Raises JudgeError where it can't even list its models."""
    served = await http.model(model)
    version = await _version(http)
    known = family or await _recognised(http, served.owner, version)
    traits = FAMILIES[known]
    http.dialect = traits.dialect
    metrics = await _metrics(http, traits.metrics_path)
    ids = await _tokenize(http, served.id)
    text = await _detokenize(http, served.id, ids or (1,))
    probe: dict[str, Any] = {"model": served.id, "prompt": list(ids) if ids else "a b"}
    token_ids = await _accepts(http, {**probe, "return_token_ids": True}, "token_ids")
    logprobs = bool(ids) and await _accepts(
        http, {**probe, "prompt_logprobs": 0}, "prompt_logprobs"
    )
    return Abilities(
        model=served.id,
        max_model_len=served.max_model_len,
        version=version,
        family=known,
        token_ids=token_ids,
        tokenize=ids is not None,
        detokenize=text is not None,
        prompt_logprobs=logprobs,
        prefix_reset=await _resets(http, known),
        salts=traits.salts,
        kv_tokens=kv_tokens(traits, metrics) if metrics else None,
    )


async def reset_prefix_cache(http: PlainClient, family: str) -> bool:
    """Empties the prefix cache by the family's own call; False where it has none."""
    reset = FAMILIES[family].reset
    return reset is not None and await http.reset_prefix_cache(reset.path, reset.method)


async def _recognised(http: PlainClient, owner: str | None, version: str | None) -> str:
    """The family of an endpoint that nobody named, by what it shows of itself."""
    for path in dict.fromkeys(family.metrics_path for family in FAMILIES.values()):
        found = recognise(await _metrics(http, path), owner, version)
        if found != "openai":
            return found
    return "openai"


# An endpoint may refuse any of these calls; what it refuses, it can't do, and the record says so.


async def _accepts(http: PlainClient, body: dict[str, Any], key: str) -> bool:
    try:
        answer = await http.completions({**body, "max_tokens": 1, "temperature": 0})
    except JudgeError:
        return False
    choices = answer.get("choices") or [{}]
    return choices[0].get(key) is not None


async def _metrics(http: PlainClient, path: str) -> str | None:
    try:
        return await http.metrics_text(path)
    except JudgeError:
        return None


async def _version(http: PlainClient) -> str | None:
    try:
        return await http.version()
    except JudgeError:
        return None


async def _tokenize(http: PlainClient, model: str) -> tuple[int, ...] | None:
    # A server that looks for the text under another key may answer that there are no tokens.
    try:
        return await http.tokenize(model, text="one two three", add_special_tokens=False) or None
    except JudgeError:
        return None


async def _detokenize(http: PlainClient, model: str, ids: tuple[int, ...]) -> str | None:
    try:
        return await http.detokenize(model, ids)
    except JudgeError:
        return None


async def _resets(http: PlainClient, family: str) -> bool:
    try:
        return await reset_prefix_cache(http, family)
    except JudgeError:
        return False
