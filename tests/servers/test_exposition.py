"""Reading metrics: text in, numbers out; what is lacking is unknown."""

import pytest

from loadjudge.servers.exposition import Metric, labels_of, samples, series, value

TEXT = """\
# HELP vllm:num_requests_waiting Number of requests waiting.
# TYPE vllm:num_requests_waiting gauge
vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 40.0
vllm:num_requests_waiting{engine="0",model_name="a{b}"} 3.0
vllm:num_requests_waiting{engine="1",model_name="a{b}"} 4.0
vllm:num_requests_running{engine="0"} 8.0
vllm:num_preemptions_total{engine="0"} 2.0
vllm:num_preemptions_created{engine="0"} 1.7e+09
vllm:spec_decode_num_drafts_total 10 1700000000
vllm:spec_decode_num_drafts_created 1.7e9
vllm:spec_decode_num_accepted_tokens_total 2.5e1"""


def read(name: str) -> float | None:
    return value(TEXT, Metric((name,)))


def test_a_metric_is_the_sum_of_its_series_with_labels_or_none() -> None:
    assert read("vllm:num_requests_waiting") == 7
    assert read("vllm:num_requests_running") == 8
    assert read("vllm:spec_decode_num_drafts_total") == 10  # a timestamp follows
    assert read("vllm:spec_decode_num_accepted_tokens_total") == 25


def test_a_name_that_another_begins_with_is_not_taken_for_it() -> None:
    waiting = "vllm:num_requests_waiting"
    assert samples('vllm:num_requests_waiting_by_reason{reason="x"} 40\n', waiting) == {}
    assert samples('x_vllm:num_requests_waiting{reason="x"} 40\n', waiting) == {}


def test_creation_times_are_no_counts() -> None:
    assert read("vllm:num_preemptions_total") == 2


def test_a_metric_that_is_not_there_is_unknown_and_not_zero() -> None:
    assert read("vllm:prefix_cache_hits_total") is None
    assert value(TEXT, None) is None
    assert value("", Metric(("vllm:num_requests_running",))) is None


def test_the_first_name_that_is_there_counts() -> None:
    assert value("old 1\n", Metric(("new", "old"))) == 1
    assert value("old 1\nnew 2\n", Metric(("new", "old"))) == 2


def test_a_share_is_the_mean_over_replicas() -> None:
    """Two engines half full were a cache full to the brim."""
    half = 'use{engine="0"} 0.5\nuse{engine="1"} 0.5\n'
    assert value(half, Metric(("use",), over="mean")) == 0.5


def test_ranks_that_tell_the_same_again_count_once_and_parts_not_at_all() -> None:
    text = """\
n{dp="0",tp="0",priority=""} 8
n{dp="0",tp="1",priority=""} 8
n{dp="1",tp="0",priority=""} 3
n{dp="1",tp="0",priority="9"} 2
"""
    metric = Metric(("n",), copies=("tp",), where=(("priority", ""),))
    assert sorted(series(text, metric).values()) == [3, 8]
    assert value(text, metric) == 11


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ('a="1",b="2"', {"a": "1", "b": "2"}),
        (r'a="say \"hi\", b=\"2\"",c="}"', {"a": r"say \"hi\", b=\"2\"", "c": "}"}),
        ("", {}),
    ],
)
def test_labels_are_read_as_they_are_quoted(written: str, labels: dict[str, str]) -> None:
    assert labels_of(written) == labels
