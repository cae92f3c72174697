"""What each engine family is like: data, no code per engine.

Names are of the engine's Prometheus text. Sources: vLLM ``vllm/v1/metrics/loggers.py``; SGLang
``srt/observability/metrics_collector.py``; TensorRT-LLM ``tensorrt_llm/metrics/collector.py``;
llama.cpp ``tools/server/server-task.cpp``; LMDeploy ``lmdeploy/metrics/loggers.py``; TGI
``docs/source/reference/metrics.md`` and ``backends/v3/src/backend.rs``. What a family lacks is
left out, and is then unknown in the record, never 0.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from loadjudge.client.dialect import LLAMACPP, LMDEPLOY, SGLANG, VLLM, Dialect
from loadjudge.servers.exposition import Metric


@dataclass(frozen=True, slots=True)
class Info:
    """A size that an info metric keeps in its labels: their product, summed over replicas."""

    metric: str
    labels: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Blocks:
    """A size that is a number of blocks times the tokens of one; both are metrics."""

    blocks: Metric
    tokens: Metric


@dataclass(frozen=True, slots=True)
class Reset:
    """The call that empties the prefix cache, and what an engine needs to have it."""

    path: str
    needs: str
    method: Literal["GET", "POST"] = "POST"


Capacity = Info | Blocks | Metric


@dataclass(frozen=True, slots=True)
class Family:
    """One engine family.

    ``counters`` may hold drafts (verify steps), draft_tokens, accepted, accepted_at (by
    ``position``), generated and finished (tokens and requests that have ended: see
    ``counters.increase``), preemptions, cache_hits and cache_queries.
    """

    prefix: str  # of its metrics: how to tell it
    owner: str = ""  # what /v1/models says of its models under owned_by
    ready_path: str = "/health"
    metrics_path: str = "/metrics"
    running: Metric | None = None
    waiting: Metric | None = None
    kv_usage: Metric | None = None  # 0 to 1; prefixes that are only kept don't count as used
    kv_tokens: tuple[Capacity, ...] = ()  # of the KV cache; the first that is told
    accept_length: Metric | None = None  # a gauge of tokens a step: of the engine's last interval
    counters: Mapping[str, Metric] = field(default_factory=dict)
    position: str = "position"
    reset: Reset | None = None
    salts: bool = False  # knows cache_salt
    dialect: Dialect = VLLM
    # What switches off each cut of the distribution and each penalty. Sent with every request:
    # an engine takes what is not sent from the model's generation_config, or has its own default.
    neutral: Mapping[str, float] = field(default_factory=dict)


def _one(*names: str) -> Metric:
    return Metric(names)


_VLLM = Family(
    prefix="vllm:",
    owner="vllm",
    running=_one("vllm:num_requests_running"),
    waiting=_one("vllm:num_requests_waiting"),
    kv_usage=Metric(("vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"), over="mean"),
    kv_tokens=(
        Info("vllm:cache_config_info", ("kv_cache_size_tokens",)),
        # Too much for models of several attention kinds, which is why it is only the second.
        Info("vllm:cache_config_info", ("num_gpu_blocks", "block_size")),
    ),
    counters={
        "drafts": _one("vllm:spec_decode_num_drafts_total"),
        "draft_tokens": _one("vllm:spec_decode_num_draft_tokens_total"),
        "accepted": _one("vllm:spec_decode_num_accepted_tokens_total"),
        "accepted_at": _one("vllm:spec_decode_num_accepted_tokens_per_pos_total"),
        "preemptions": _one("vllm:num_preemptions_total"),
        "cache_hits": _one("vllm:prefix_cache_hits_total"),
        "cache_queries": _one("vllm:prefix_cache_queries_total"),
    },
    reset=Reset("/reset_prefix_cache", needs="VLLM_SERVER_DEV_MODE=1 in its environment"),
    salts=True,
    # -1, not 0: older releases refuse 0.
    neutral={"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
)


def _sglang(name: str, over: Literal["sum", "mean"] = "sum") -> Metric:
    """Every rank of one replica may tell a figure, and that of one priority is a part of it."""
    ranks = ("tp_rank", "pp_rank", "moe_ep_rank", "pid")
    return Metric((f"sglang:{name}",), over, copies=ranks, where=(("priority", ""),))


FAMILIES: Mapping[str, Family] = {
    "vllm": _VLLM,
    "reference": _VLLM,  # it speaks vLLM's names
    "sglang": Family(
        prefix="sglang:",
        owner="sglang",
        running=_sglang("num_running_reqs"),
        waiting=_sglang("num_queue_reqs"),
        kv_usage=_sglang("token_usage", over="mean"),
        kv_tokens=(_sglang("max_total_num_tokens"),),
        accept_length=_sglang("spec_accept_length", over="mean"),
        counters={
            # Tokens and verify calls are counted when a request ends.
            "drafts": _sglang("spec_verify_calls_total"),
            "generated": _sglang("generation_tokens_total"),
            "finished": _sglang("num_requests_total"),
            "preemptions": _sglang("num_retracted_requests_total"),
            "cache_hits": _sglang("cached_tokens_total"),
            "cache_queries": _sglang("prompt_tokens_total"),
        },
        reset=Reset("/flush_cache", needs="no request in flight"),
        dialect=SGLANG,
        neutral={"top_k": -1, "min_p": 0.0, "repetition_penalty": 1.0},
    ),
    "trtllm": Family(
        prefix="trtllm_",
        owner="tensorrt_llm",
        # Needs return_perf_metrics and enable_iter_perf_stats. Its /metrics is another thing:
        # JSON that reading drains.
        metrics_path="/prometheus/metrics",
        running=_one("trtllm_num_requests_running"),
        waiting=_one("trtllm_num_requests_waiting"),
        kv_usage=Metric(("trtllm_kv_cache_utilization",), over="mean"),
        kv_tokens=(
            Blocks(
                _one("trtllm_kv_cache_max_blocks"),
                Metric(("trtllm_kv_cache_tokens_per_block",), over="mean"),
            ),
        ),
        # It counts no verify steps: there is only the gauge.
        accept_length=Metric(("trtllm_spec_decode_acceptance_length",), over="mean"),
        counters={
            "draft_tokens": _one("trtllm_spec_decode_num_draft_tokens_total"),
            "accepted": _one("trtllm_spec_decode_num_accepted_tokens_total"),
            "accepted_at": _one("trtllm_spec_decode_accepted_tokens_total"),
            "cache_hits": _one("trtllm_prompt_cached_tokens_total"),
            "cache_queries": _one("trtllm_prompt_tokens_total"),
        },
        position="token_position",
        neutral={"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
    ),
    "llamacpp": Family(
        prefix="llamacpp:",  # with --metrics
        owner="llamacpp",
        running=_one("llamacpp:requests_processing"),
        waiting=_one("llamacpp:requests_deferred"),
        kv_usage=Metric(("llamacpp:kv_cache_usage_ratio",), over="mean"),  # until 2025
        # No size of the cache: its slots, not its cache, bound what runs at once.
        counters={
            "drafts": _one("llamacpp:spec_decode_num_drafts_total"),
            "draft_tokens": _one("llamacpp:spec_decode_num_draft_tokens_total"),
            "accepted": _one("llamacpp:spec_decode_num_accepted_tokens_total"),
            "accepted_at": _one("llamacpp:spec_decode_num_accepted_tokens_per_pos_total"),
            "cache_hits": _one("llamacpp:prompt_tokens_cached_total"),
        },
        dialect=LLAMACPP,
        neutral={"top_k": 0, "min_p": 0.0, "repeat_penalty": 1.0},
    ),
    "lmdeploy": Family(
        prefix="lmdeploy:",
        owner="lmdeploy",
        running=_one("lmdeploy:num_requests_running"),
        waiting=_one("lmdeploy:num_requests_waiting"),
        kv_usage=Metric(("lmdeploy:gpu_cache_usage_perc",), over="mean"),
        accept_length=Metric(("lmdeploy:spec_decode_mean_accept_length",), over="mean"),
        counters={
            "drafts": _one("lmdeploy:spec_decode_num_drafts_total"),
            "draft_tokens": _one("lmdeploy:spec_decode_num_draft_tokens_total"),
            "accepted": _one("lmdeploy:spec_decode_num_accepted_tokens_total"),
            "accepted_at": _one("lmdeploy:spec_decode_num_accepted_tokens_per_pos_total"),
            "cache_hits": _one("lmdeploy:cached_tokens_total"),
            "cache_queries": _one("lmdeploy:prompt_tokens_total"),
        },
        dialect=LMDEPLOY,
        neutral={"top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
    ),
    "tgi": Family(
        prefix="tgi_",
        running=_one("tgi_batch_current_size"),
        waiting=_one("tgi_queue_size"),
        counters={
            # One observation a step of a request, its prefill's included: how many tokens it
            # brought beyond the first.
            "drafts": _one("tgi_request_skipped_tokens_count"),
            "accepted": _one("tgi_request_skipped_tokens_sum"),
        },
    ),
    "openai": Family(prefix="\0", ready_path="/v1/models"),
}


def recognise(metrics: str | None, owner: str | None = None, version: str | None = None) -> str:
    """The family of an endpoint, from its metrics, then from what its model list and /version say.

    "openai" where none is known.
    """
    if version and version.endswith("+loadjudge.reference"):
        return "reference"
    for name, family in FAMILIES.items():
        if metrics and re.search(rf"^{re.escape(family.prefix)}", metrics, re.MULTILINE):
            return name
    return next((n for n, f in FAMILIES.items() if owner and f.owner == owner.lower()), "openai")
