"""Engine families on texts as the engines write them; each file says where it is from."""

from pathlib import Path
from typing import Any, get_args

import orjson
import pytest

from loadjudge.servers.counters import (
    Load,
    counters,
    increase,
    kv_tokens,
    load_of,
    tokens_per_step,
)
from loadjudge.servers.families import FAMILIES, recognise
from loadjudge.wire.request import Sampling, chat_body

CAPTURES = Path(__file__).with_name("captures")


def text(name: str) -> str:
    return (CAPTURES / f"{name}.prom").read_text()


def family_of(name: str) -> Any:
    return FAMILIES[name.partition("-")[0]]


def since_start(name: str) -> dict[str, float]:
    return increase({}, counters(family_of(name), text(name)))


@pytest.mark.parametrize("name", [p.stem for p in sorted(CAPTURES.glob("*.prom"))])
def test_a_family_is_known_by_its_metrics(name: str) -> None:
    assert recognise(text(name)) == name.partition("-")[0]


def test_where_there_are_no_metrics_the_list_of_models_and_the_version_tell() -> None:
    assert recognise(None, owner="llamacpp") == "llamacpp"
    assert recognise("", owner="vllm", version="0.32.0") == "vllm"
    assert recognise(text("vllm"), "vllm", "0.1+loadjudge.reference") == "reference"
    assert recognise("process_cpu_seconds_total 1\nmy_vllm:x 2\n", owner="openai") == "openai"
    assert recognise(None) == "openai"


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        # Sums over both engines; the share of the cache is their mean.
        ("vllm", Load(61 + 59 + 3, 3, 0.875)),
        ("vllm-0.9", Load(2, 0, 0.25)),
        # Ranks of one replica tell the same again, and a priority's requests are a part.
        ("sglang", Load(30 + 32 + 1, 1, pytest.approx(0.8), 2.625)),
        ("trtllm", Load(18, 2, 0.875, 2.25)),
        ("llamacpp", Load(0, 0, None)),
        ("lmdeploy", Load(9, 1, 0.5, 3.0)),
        ("tgi", Load(8, 3, None)),
    ],
)
def test_how_busy_each_engine_says_that_it_is(name: str, expected: Load) -> None:
    assert load_of(family_of(name), text(name)) == expected


@pytest.mark.parametrize(
    ("name", "tokens"),
    [
        ("vllm", 2 * 479776),
        ("vllm-0.9", 29986 * 16),  # no kv_cache_size_tokens yet: blocks times their size
        ("sglang", 2 * 262144),
        ("trtllm", 8192 * 32),
        ("llamacpp", None),
        ("lmdeploy", None),
        ("tgi", None),
    ],
)
def test_the_size_of_the_kv_cache_in_tokens(name: str, tokens: float | None) -> None:
    assert kv_tokens(family_of(name), text(name)) == tokens


def test_a_size_that_vllm_calls_none_is_worked_out_from_its_blocks() -> None:
    said = text("vllm").replace('kv_cache_size_tokens="479776"', 'kv_cache_size_tokens="None"')
    assert kv_tokens(FAMILIES["vllm"], said) == 2 * 29986 * 16
    assert kv_tokens(FAMILIES["vllm"], said.replace('num_gpu_blocks="29986"', "")) is None


@pytest.mark.parametrize(
    ("name", "per_step"),
    [
        ("vllm", 1 + (247200 + 245469) / (164800 + 163646)),
        ("vllm-0.9", None),  # it does not speculate: unknown, and not 1
        ("sglang", (100900 - 900) / 40000),
        ("trtllm", None),  # no counter of verify steps
        ("llamacpp", 2.0),
        ("lmdeploy", 3.0),
        ("tgi", 1.85),
    ],
)
def test_tokens_a_verify_step_by_each_engines_counters(name: str, per_step: float | None) -> None:
    assert tokens_per_step(since_start(name)) == (per_step and pytest.approx(per_step))


def test_accepted_tokens_by_position_are_summed_over_replicas() -> None:
    assert [since_start("vllm")[f"accepted_at_{k}"] for k in range(3)] == [
        115360 + 114552, 82400 + 81823, 49440 + 49094
    ]  # fmt: skip
    assert [since_start("trtllm")[f"accepted_at_{k}"] for k in range(3)] == [700, 400, 150]
    assert [since_start("llamacpp")[f"accepted_at_{k}"] for k in range(4)] == [6, 6, 0, 0]
    assert not any(name.startswith("accepted_at") for name in since_start("sglang"))


def test_what_an_engine_does_not_count_is_left_out() -> None:
    assert "preemptions" not in since_start("llamacpp")
    assert since_start("vllm")["preemptions"] == 7
    assert since_start("sglang")["preemptions"] == 2
    assert since_start("vllm-0.9") == {}
    assert increase({}, counters(FAMILIES["openai"], text("vllm"))) == {}


def test_the_prefix_cache_is_emptied_by_the_engines_own_call() -> None:
    resets = {name: family.reset.path for name, family in FAMILIES.items() if family.reset}
    assert resets == {
        "vllm": "/reset_prefix_cache",
        "reference": "/reset_prefix_cache",
        "sglang": "/flush_cache",
    }
    assert all(f.reset.needs for f in FAMILIES.values() if f.reset)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_request_leaves_no_sampling_to_the_engines_own_defaults(name: str) -> None:
    """A generation_config with top_k 20 was drawn from while the scorer had no top-k."""
    neutral = FAMILIES[name].neutral
    body = orjson.loads(chat_body("m", [], neutral=neutral, sampling=Sampling()))
    cuts = {k: body.get(k) for k in ("temperature", "top_p", "top_k", "min_p")}
    if name in ("openai", "tgi"):  # their protocol has no more
        assert cuts == {"temperature": 1.0, "top_p": 1.0, "top_k": None, "min_p": None}
        return
    off = -1 if name in ("vllm", "reference", "sglang") else 0
    assert cuts == {"temperature": 1.0, "top_p": 1.0, "top_k": off, "min_p": 0.0}
    assert (body.get("repetition_penalty") or body.get("repeat_penalty")) == 1.0
    asked = orjson.loads(chat_body("m", [], neutral=neutral, sampling=Sampling(top_k=20)))
    assert asked["top_k"] == 20


def test_each_family_that_an_engine_file_may_name_has_its_table() -> None:
    from loadjudge.servers import engine

    assert set(get_args(engine.Family)) == set(FAMILIES)
