"""An arm's endpoint: what it can do, found out by asking, and its figures over time."""

from dataclasses import dataclass
from typing import Any

from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.servers.families import FAMILIES, Family, label_sum, recognise, value


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
    metrics = await _metrics(http)
    known = family or recognise(metrics)
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
        version=await _version(http),
        family=known,
        token_ids=token_ids,
        tokenize=ids is not None,
        detokenize=text is not None,
        prompt_logprobs=logprobs,
        prefix_reset=await _resets(http),
        salts=FAMILIES[known].salts,
        kv_tokens=label_sum(metrics, FAMILIES[known].kv_tokens) if metrics else None,
    )


# An endpoint may refuse any of these calls; what it refuses, it can't do, and the record says so.


async def _accepts(http: PlainClient, body: dict[str, Any], key: str) -> bool:
    try:
        answer = await http.completions({**body, "max_tokens": 1, "temperature": 0})
    except JudgeError:
        return False
    choices = answer.get("choices") or [{}]
    return choices[0].get(key) is not None


async def _metrics(http: PlainClient) -> str | None:
    try:
        return await http.metrics_text()
    except JudgeError:
        return None


async def _version(http: PlainClient) -> str | None:
    try:
        return await http.version()
    except JudgeError:
        return None


async def _tokenize(http: PlainClient, model: str) -> tuple[int, ...] | None:
    try:
        return await http.tokenize(model, text="one two three", add_special_tokens=False)
    except JudgeError:
        return None


async def _detokenize(http: PlainClient, model: str, ids: tuple[int, ...]) -> str | None:
    try:
        return await http.detokenize(model, ids)
    except JudgeError:
        return None


async def _resets(http: PlainClient) -> bool:
    try:
        return await http.reset_prefix_cache()
    except JudgeError:
        return False


@dataclass(frozen=True, slots=True)
class Load:
    """One look at how busy an engine is; ``None`` where it doesn't say."""

    in_flight: float | None
    waiting: float | None
    kv_usage: float | None


def load_of(family: Family, metrics: str) -> Load:
    running, waiting = value(metrics, family.running), value(metrics, family.waiting)
    in_flight = None if running is None else running + (waiting or 0.0)
    return Load(in_flight, waiting, value(metrics, family.kv_usage))
