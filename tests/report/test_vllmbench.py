"""Results in vLLM's keys, against values worked out here from the turns alone."""

import statistics
from pathlib import Path

import orjson
import pytest

from loadjudge.record.values import RunRecord
from loadjudge.report.vllmbench import bench_results, paths_of
from tests.factories import failed_play, one_pass, play, turn
from tests.sweep.sweeps import sweep_run

# The keys that plots read, from the tool's own documentation of its result files.
KEYS = {
    *("date", "endpoint_type", "backend", "label", "model_id", "tokenizer_id", "num_prompts"),
    *("request_rate", "burstiness", "max_concurrency", "duration", "completed", "failed"),
    *("total_input_tokens", "total_output_tokens", "request_throughput", "request_goodput"),
    *("output_throughput", "total_token_throughput", "max_output_tokens_per_s"),
    *("max_concurrent_requests", "input_lens", "output_lens", "ttfts", "itls", "latencies"),
    *("start_times", "queue_times", "generated_texts", "errors"),
    *(
        f"{s}_{m}_ms"
        for s in ("mean", "median", "std", "p99")
        for m in ("ttft", "tpot", "itl", "e2el")
    ),
}


def speaking(tokens: list[tuple[float, int]], sent_s: float) -> object:
    """A turn whose chunks of so many tokens come so long after it was sent."""
    arrivals = tuple((sent_s + t, n, 4 * n) for t, n in tokens)
    return turn(
        sum(n for _, n in tokens),
        sent_s=sent_s,
        scheduled_s=sent_s - 0.01,
        arrivals=arrivals,
        prompt_tokens=30,
        done_s=arrivals[-1][0],
    )


@pytest.fixture
def run() -> RunRecord:
    plays = [
        play("a", turns=(speaking([(0.1, 1), (0.3, 3), (0.5, 2)], 0.0),)),
        play("b", turns=(speaking([(0.2, 1), (0.4, 1)], 0.0), speaking([(0.05, 1)], 0.4))),
        failed_play("c"),
    ]
    one = one_pass(
        "stock", 0, plays, lanes=2, workload="lanes-2", close_s=0.5,
        counters={"drafts": 4.0, "accepted": 6.0},
    )  # fmt: skip
    ready = {"arm": "stock", "abilities": {"model": "tiny"}}
    made = sweep_run([one], goodput={"ttft": 150.0})
    return RunRecord(**{**{f: getattr(made, f) for f in made.__slots__}, "engines": (ready,)})


def test_every_key_and_its_value(run: RunRecord) -> None:
    (result,) = bench_results(run).values()
    assert set(result) >= KEYS
    ttft, e2el = [0.1, 0.2, 0.05], [0.5, 0.4, 0.05]
    tpot = [(0.5 - 0.1) / 5, (0.4 - 0.2) / 1]  # a reply of one token has none
    itl = [0.2, 0.2, 0.2]  # between chunks, whatever they bring
    for name, values in (("ttft", ttft), ("e2el", e2el), ("tpot", tpot), ("itl", itl)):
        assert result[f"mean_{name}_ms"] == pytest.approx(1e3 * statistics.fmean(values))
        assert result[f"median_{name}_ms"] == pytest.approx(1e3 * statistics.median(values))
        assert result[f"std_{name}_ms"] == pytest.approx(1e3 * statistics.pstdev(values), abs=1e-9)
    # p99 of [50, 100, 200]: 98 % of the way from the second to the third.
    assert result["p99_ttft_ms"] == pytest.approx(100 + 0.98 * 100)
    # Two lanes: a's 0.5 s and b's 0.45 s of lane time are half as long for both together.
    duration = (0.5 + 0.45) / 2
    assert result["duration"] == pytest.approx(duration)
    assert result["total_output_tokens"] == 6 + 2 + 1
    assert result["output_throughput"] == pytest.approx(9 / duration)
    assert result["request_throughput"] == pytest.approx(3 / duration)
    assert result["total_token_throughput"] == pytest.approx((90 + 9) / duration)
    assert result["request_goodput"] == pytest.approx(2 / duration)
    assert (result["completed"], result["failed"], result["num_prompts"]) == (3, 1, 4)
    assert (result["max_concurrency"], result["request_rate"]) == (2, "inf")
    assert (result["model_id"], result["label"]) == ("tiny", "old <engine>")
    assert result["date"] == "20260102-030405"
    assert result["max_output_tokens_per_s"] == 9.0
    assert result["max_concurrent_requests"] == 2
    assert result["spec_decode_acceptance_length"] == pytest.approx(2.5)
    assert result["queue_times"] == pytest.approx([0.01] * 3)
    assert [len(i) for i in result["itls"]] == [2, 1, 0]
    assert orjson.loads(orjson.dumps(result)) == result


def test_without_objectives_or_speculation_nothing_is_claimed(run: RunRecord) -> None:
    run.header["goodput"] = {}
    run.passes[0].counters.update(drafts=0.0)  # type: ignore[union-attr]
    (result,) = bench_results(run).values()
    assert result["request_goodput"] is None
    assert not any(key.startswith("spec_decode") for key in result)


def test_a_file_for_each_arm_and_load() -> None:
    several = {("stock", "solo"): {}, ("candidate", "solo"): {}}
    assert paths_of(several, Path("out/bench.json")) == {  # type: ignore[arg-type]
        ("stock", "solo"): Path("out/bench-stock-solo.json"),
        ("candidate", "solo"): Path("out/bench-candidate-solo.json"),
    }
    one = {("stock", "lanes-1"): {}}
    assert paths_of(one, Path("bench.json")) == {("stock", "lanes-1"): Path("bench.json")}  # type: ignore[arg-type]
