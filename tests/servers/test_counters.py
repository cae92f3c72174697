"""Windows between two scrapes: what was gained, replica by replica."""

import pytest

from loadjudge.servers.counters import counters, increase, load_of, tokens_per_step
from loadjudge.servers.families import FAMILIES

VLLM = FAMILIES["vllm"]


def scrape(drafts: dict[str, float], accepted: dict[str, float] | None = None) -> str:
    lines = [f'vllm:spec_decode_num_drafts_total{{engine="{e}"}} {n}' for e, n in drafts.items()]
    lines += [
        f'vllm:spec_decode_num_accepted_tokens_total{{engine="{e}"}} {n}'
        for e, n in (accepted or {}).items()
    ]
    return "\n".join(lines)


def gained(before: str, after: str) -> dict[str, float]:
    return increase(counters(VLLM, before), counters(VLLM, after))


def test_the_increase_is_what_each_counter_gained() -> None:
    before = scrape({"0": 10, "1": 5}, {"0": 25, "1": 0})
    after = scrape({"0": 15, "1": 5}, {"0": 45, "1": 0})
    assert gained(before, after) == {"drafts": 5, "accepted": 20}
    assert tokens_per_step(gained(before, after)) == 5


def test_a_replica_that_was_restarted_counts_from_zero_beside_one_that_was_not() -> None:
    """The sum over replicas had grown, which hid that one of them had begun again."""
    assert gained(scrape({"0": 100, "1": 100}), scrape({"0": 190, "1": 30})) == {"drafts": 120}


def test_a_counter_that_came_up_counts_from_zero_and_one_that_went_is_unknown() -> None:
    assert gained("", scrape({"0": 4})) == {"drafts": 4}
    assert gained(scrape({"0": 4}, {"0": 9}), scrape({"0": 6})) == {"drafts": 2}


def test_no_step_in_the_window_is_no_length() -> None:
    still = scrape({"0": 4}, {"0": 9})
    assert gained(still, still) == {"drafts": 0, "accepted": 0}
    assert tokens_per_step({"drafts": 0, "accepted": 0}) is None
    assert tokens_per_step({"drafts": 7}) is None


def test_sglangs_first_token_of_a_request_is_of_no_verify_step() -> None:
    sglang = FAMILIES["sglang"]

    def at(tokens: int, requests: int, calls: int) -> str:
        return (
            f"sglang:generation_tokens_total {tokens}\nsglang:num_requests_total {requests}\n"
            f"sglang:spec_verify_calls_total {calls}\n"
        )

    window = increase(counters(sglang, at(100, 2, 40)), counters(sglang, at(310, 12, 120)))
    assert window == {"drafts": 80, "accepted": 120}
    assert tokens_per_step(window) == 2.5
    # Without speculation there are no verify calls, and no length.
    plain = increase({}, counters(sglang, "sglang:generation_tokens_total 5\n"))
    assert plain == {}


def test_a_gauge_at_rest_is_no_acceptance_length() -> None:
    assert (
        load_of(FAMILIES["trtllm"], "trtllm_spec_decode_acceptance_length 0\n").accept_length
        is None
    )


@pytest.mark.parametrize("metrics", ["", "vllm:num_requests_waiting 3\n"])
def test_an_engine_that_does_not_say_what_runs_has_no_load(metrics: str) -> None:
    assert load_of(VLLM, metrics).in_flight is None
