"""Reading metrics: text in, numbers out; what is lacking is unknown."""

import pytest

from loadjudge.servers.endpoint import load_of
from loadjudge.servers.families import (
    FAMILIES,
    Counters,
    counters,
    increase,
    label_sum,
    recognise,
    value,
)

VLLM = """\
# HELP vllm:num_requests_waiting Number of requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 40.0
vllm:num_requests_waiting{engine="0",model_name="a{b}"} 3.0
vllm:num_requests_waiting{engine="1",model_name="a{b}"} 4.0
vllm:num_requests_running{engine="0"} 8.0
vllm:kv_cache_usage_perc{engine="0"} 0.25
vllm:num_preemptions_total{engine="0"} 2.0
vllm:num_preemptions_created{engine="0"} 1.7e+09
vllm:spec_decode_num_drafts_total 10 1700000000
vllm:spec_decode_num_drafts_created 1.7e9
vllm:spec_decode_num_accepted_tokens_total 2.5e1
vllm:cache_config_info{block_size="16",kv_cache_size_tokens="1000",num_gpu_blocks="None"} 1.0
vllm:cache_config_info{kv_cache_size_tokens="1500",other_kv_cache_size_tokens="9"} 1.0"""


def test_a_metric_is_the_sum_of_its_series_with_labels_or_none() -> None:
    assert value(VLLM, "vllm:num_requests_waiting") == 7
    assert value(VLLM, "vllm:num_requests_running") == 8
    assert value(VLLM, "vllm:spec_decode_num_drafts_total") == 10  # a timestamp follows
    assert value(VLLM, "vllm:spec_decode_num_accepted_tokens_total") == 25


def test_a_name_that_another_begins_with_is_not_taken_for_it() -> None:
    only = 'vllm:num_requests_waiting_by_reason{reason="x"} 40\n'
    assert value(only, "vllm:num_requests_waiting") is None
    assert (
        value('x_vllm:num_requests_waiting{reason="x"} 40\n', "vllm:num_requests_waiting") is None
    )


def test_creation_times_are_no_counts() -> None:
    assert value(VLLM, "vllm:num_preemptions_total") == 2


def test_a_metric_that_is_not_there_is_unknown_and_not_zero() -> None:
    assert value(VLLM, "vllm:prefix_cache_hits_total") is None
    assert value(VLLM, None) is None
    assert value("", "vllm:num_requests_running") is None


def test_a_label_that_holds_a_number_is_summed_over_replicas() -> None:
    assert label_sum(VLLM, ("vllm:cache_config_info", "kv_cache_size_tokens")) == 2500
    assert label_sum(VLLM, ("vllm:cache_config_info", "num_gpu_blocks")) is None
    assert label_sum(VLLM, ("vllm:cache_config", "kv_cache_size_tokens")) is None
    assert label_sum(VLLM, None) is None


@pytest.mark.parametrize(
    ("metrics", "family"),
    [
        (VLLM, "vllm"),
        ("# HELP x y\nsglang:num_running_reqs 1\n", "sglang"),
        ("llamacpp:requests_processing 1\n", "llamacpp"),
        ("lmdeploy:gpu_cache_usage_perc 1\n", "lmdeploy"),
        ("trtllm_num_requests_running 1\n", "trtllm"),
        ("tgi_queue_size 1\n", "tgi"),
        ("process_cpu_seconds_total 1\nmy_vllm:x 2\n", "openai"),
        ("", "openai"),
        (None, "openai"),
    ],
)
def test_a_family_is_known_by_its_metrics(metrics: str | None, family: str) -> None:
    assert recognise(metrics) == family


def test_a_scrape_holds_what_the_family_has() -> None:
    assert counters(FAMILIES["vllm"], VLLM) == Counters(10, 25, 2, None, None)
    assert counters(FAMILIES["openai"], VLLM) == Counters(None, None, None, None, None)


def test_the_increase_is_what_each_counter_gained() -> None:
    before, after = Counters(10, 25, 2, None, None), Counters(15, 45, 2, None, None)
    assert increase(before, after) == {"drafts": 5, "accepted": 20, "preemptions": 0}


def test_a_counter_that_was_reset_counts_from_zero() -> None:
    before, after = Counters(10, 25, 2, None, None), Counters(4, 30, 0, None, None)
    assert increase(before, after) == {"drafts": 4, "accepted": 5, "preemptions": 0}


def test_a_counter_that_came_up_counts_from_zero_and_one_that_went_is_unknown() -> None:
    before, after = Counters(None, 25, None, None, None), Counters(4, None, None, None, None)
    assert increase(before, after) == {"drafts": 4}


def test_requests_in_flight_run_or_wait() -> None:
    load = load_of(FAMILIES["vllm"], VLLM)
    assert (load.in_flight, load.waiting, load.kv_usage) == (15, 7, 0.25)
    assert load_of(FAMILIES["vllm"], "vllm:num_requests_running 2\n").in_flight == 2
    assert load_of(FAMILIES["vllm"], "").in_flight is None
    assert load_of(FAMILIES["tgi"], VLLM).in_flight is None


def test_drafts_and_accepted_tokens_by_position_add_up_over_replicas() -> None:
    metrics = (
        "vllm:spec_decode_num_draft_tokens_total 40\n"
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="0"} 9\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{engine="0",position="1"} 5\n'
        'vllm:spec_decode_num_accepted_tokens_per_pos_total{position="1",engine="1"} 2\n'
    )
    seen = counters(FAMILIES["vllm"], metrics)
    assert seen.draft_tokens == 40
    assert seen.accepted_at == {0: 9, 1: 7}
    assert increase(Counters(None, None, None, None, None, 10, {0: 4, 1: 7}), seen) == {
        "draft_tokens": 30,
        "accepted_at_0": 5,
        "accepted_at_1": 0,
    }
    assert counters(FAMILIES["sglang"], metrics).accepted_at == {}
