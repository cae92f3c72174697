"""What each engine family calls its counters: data, no code per engine.

Names are of ``/metrics`` in Prometheus text. Counters of several replicas add up. A counter
that an engine lacks is unknown, never 0. Source: the engines' own documentation.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Family:
    """Metric names of one engine family; ``None`` where it has no such metric."""

    prefix: str  # how to tell it by its metrics
    running: str | None = None
    waiting: str | None = None
    kv_usage: str | None = None  # 0 to 1
    preemptions: str | None = None
    drafts: str | None = None  # verify steps
    draft_tokens: str | None = None
    accepted: str | None = None
    accepted_at: str | None = None  # the same by position, in a label of that name
    cache_hits: str | None = None
    cache_queries: str | None = None
    kv_tokens: tuple[str, str] | None = None  # (metric, label) of the KV cache's size in tokens
    salts: bool = False  # knows cache_salt


_VLLM = Family(
    prefix="vllm:",
    running="vllm:num_requests_running",
    waiting="vllm:num_requests_waiting",
    kv_usage="vllm:kv_cache_usage_perc",
    preemptions="vllm:num_preemptions_total",
    drafts="vllm:spec_decode_num_drafts_total",
    draft_tokens="vllm:spec_decode_num_draft_tokens_total",
    accepted="vllm:spec_decode_num_accepted_tokens_total",
    accepted_at="vllm:spec_decode_num_accepted_tokens_per_pos_total",
    cache_hits="vllm:prefix_cache_hits_total",
    cache_queries="vllm:prefix_cache_queries_total",
    kv_tokens=("vllm:cache_config_info", "kv_cache_size_tokens"),
    salts=True,
)

FAMILIES: Mapping[str, Family] = {
    "vllm": _VLLM,
    "reference": _VLLM,  # it speaks vLLM's names
    "sglang": Family(
        prefix="sglang:",
        running="sglang:num_running_reqs",
        waiting="sglang:num_queue_reqs",
        kv_usage="sglang:token_usage",
    ),
    "llamacpp": Family(
        prefix="llamacpp:",
        running="llamacpp:requests_processing",
        waiting="llamacpp:requests_deferred",
        drafts="llamacpp:spec_decode_num_drafts_total",
        accepted="llamacpp:spec_decode_num_accepted_tokens_total",
    ),
    "lmdeploy": Family(
        prefix="lmdeploy:",
        kv_usage="lmdeploy:gpu_cache_usage_perc",
        drafts="lmdeploy:spec_decode_num_drafts_total",
        accepted="lmdeploy:spec_decode_num_accepted_tokens_total",
    ),
    "trtllm": Family(
        prefix="trtllm_",
        running="trtllm_num_requests_running",
        waiting="trtllm_num_requests_waiting",
        kv_usage="trtllm_kv_cache_utilization",
    ),
    "tgi": Family(prefix="tgi_"),
    "openai": Family(prefix="\0"),
}


def recognise(metrics: str | None) -> str:
    """The family whose metrics these are; "openai" where none is known."""
    if metrics:
        for name, family in FAMILIES.items():
            if re.search(rf"^{re.escape(family.prefix)}", metrics, re.MULTILINE):
                return name
    return "openai"


def value(metrics: str, name: str | None) -> float | None:
    """The sum of a metric's series; None where there is none.

    Reads the lines of one name only: a scrape inside a timed window has to be cheap.
    """
    series = [number for _, number in _series(metrics, name)] if name else []
    return sum(series) if series else None


def by_position(metrics: str, name: str | None) -> dict[int, float]:
    """A metric's series by their label ``position``."""
    positions: dict[int, float] = {}
    for labels, number in _series(metrics, name) if name else ():
        found = re.search(r'[{,]position="(\d+)"', labels)
        if found:
            positions[int(found[1])] = positions.get(int(found[1]), 0.0) + number
    return positions


def _series(metrics: str, name: str) -> Iterator[tuple[str, float]]:
    """Labels as they are written, and the value, of each series of a metric."""
    at = -1
    while (at := metrics.find(name, at + 1)) >= 0:
        after = metrics[at + len(name) : at + len(name) + 1]
        if (at > 0 and metrics[at - 1] != "\n") or after not in ("{", " "):
            continue
        end = metrics.find("\n", at)
        line = metrics[at : end if end >= 0 else None]
        split = line.rfind("}") + 1 if "}" in line else len(name)
        number = line[split:].split()
        if number:
            yield line[len(name) : split], float(number[0])


def label_sum(metrics: str, source: tuple[str, str] | None) -> float | None:
    """The sum over replicas of a number that an info metric keeps in a label."""
    if source is None:
        return None
    name, label = source
    total: float | None = None
    for line in metrics.splitlines():
        if line.startswith(name + "{"):
            found = re.search(rf'[{{,]{label}="([0-9.]+)"', line)
            if found:
                total = (total or 0.0) + float(found[1])
    return total


@dataclass(frozen=True, slots=True)
class Counters:
    """One scrape, as far as the family has each figure."""

    drafts: float | None
    accepted: float | None
    preemptions: float | None
    cache_hits: float | None
    cache_queries: float | None
    draft_tokens: float | None = None
    accepted_at: Mapping[int, float] = field(default_factory=dict)  # by position in the draft


def counters(family: Family, metrics: str) -> Counters:
    return Counters(
        drafts=value(metrics, family.drafts),
        accepted=value(metrics, family.accepted),
        preemptions=value(metrics, family.preemptions),
        cache_hits=value(metrics, family.cache_hits),
        cache_queries=value(metrics, family.cache_queries),
        draft_tokens=value(metrics, family.draft_tokens),
        accepted_at=by_position(metrics, family.accepted_at),
    )


def increase(before: Counters, after: Counters) -> dict[str, float]:
    """What each counter gained; one that was reset in between counts from 0, as in Prometheus.

    Accepted tokens by position are ``accepted_at_0`` and on.
    """
    then, gained = _flat(before), {}
    for name, now in _flat(after).items():
        gained[name] = now - then[name] if name in then and now >= then[name] else now
    return gained


def _flat(counters: Counters) -> dict[str, float]:
    names = [name for name in Counters.__dataclass_fields__ if name != "accepted_at"]
    single = {name: getattr(counters, name) for name in names}
    return {
        **{name: number for name, number in single.items() if number is not None},
        **{f"accepted_at_{i}": number for i, number in counters.accepted_at.items()},
    }
