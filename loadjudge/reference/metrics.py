"""``/metrics``: Prometheus text under vLLM's names."""

from collections.abc import Iterable

from loadjudge.reference.engine import Engine
from loadjudge.reference.kv import BLOCK


def exposition(engine: Engine, model_name: str) -> str:
    """The page. Speculation's counters are there only while the engine speculates, as in vLLM."""
    scheduler = engine.scheduler
    counters, limits, pool = scheduler.counters, scheduler.limits, scheduler.pool
    labels = f'engine="0",model_name="{model_name}"'
    tokens = pool.blocks * BLOCK
    concurrency = tokens / limits.max_model_len
    cache = (
        f'block_size="{BLOCK}",engine="0",kv_cache_max_concurrency="{concurrency}",'
        f'kv_cache_size_tokens="{tokens}",num_gpu_blocks="{pool.blocks}"'
    )
    lines: list[str] = []

    def add(name: str, kind: str, values: Iterable[tuple[str, float]]) -> None:
        suffix = "_total" if kind == "counter" else ""
        lines.append(f"# HELP {name}{suffix} As in vLLM.")
        lines.append(f"# TYPE {name}{suffix} {kind}")
        lines.extend(f"{name}{suffix}{{{of}}} {value}" for of, value in values)

    add("vllm:cache_config_info", "gauge", [(cache, 1.0)])
    for name, value in {
        "num_requests_running": len(scheduler.running),
        "num_requests_waiting": len(scheduler.waiting),
        "kv_cache_usage_perc": pool.usage,
    }.items():
        add(f"vllm:{name}", "gauge", [(labels, float(value))])
    for name, value in {
        "num_preemptions": counters.preemptions,
        "prefix_cache_queries": counters.prefix_queries,
        "prefix_cache_hits": counters.prefix_hits,
        "prompt_tokens": counters.prompt_tokens,
        "generation_tokens": counters.generation_tokens,
    }.items():
        add(f"vllm:{name}", "counter", [(labels, float(value))])
    add(
        "vllm:request_success",
        "counter",
        [(f'{labels},finished_reason="{r}"', float(n)) for r, n in counters.finished.items()],
    )
    if scheduler.drafter is not None:
        for name, value in {
            "num_drafts": counters.drafts,
            "num_draft_tokens": counters.draft_tokens,
            "num_accepted_tokens": counters.accepted,
        }.items():
            add(f"vllm:spec_decode_{name}", "counter", [(labels, float(value))])
        add(
            "vllm:spec_decode_num_accepted_tokens_per_pos",
            "counter",
            [
                (f'{labels},position="{position}"', float(n))
                for position, n in enumerate(counters.accepted_at)
            ],
        )
    for name, value in {
        "steps": counters.steps,
        "late_steps": engine.late.steps,
        "late_seconds": engine.late.seconds,
    }.items():
        add(f"loadjudge_reference_{name}", "counter", [(labels, float(value))])
    return "\n".join(lines) + "\n"
