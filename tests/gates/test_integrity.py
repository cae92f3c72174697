"""Integrity of the stream: counts, ids, silence, prompts, history, acceptance."""

from typing import Any

import pytest

from loadjudge.gates.integrity import check, forced_acceptance


def run_of(make: Any, candidate: Any, stock: Any = None, **changes: Any) -> Any:
    """``candidate`` and ``stock`` make a turn from its number."""
    sound = stock or (lambda i: make.turn(20))
    passes = [
        make.one_pass(arm, 0, [make.play(f"s{i}", turns=(turn(i),)) for i in range(30)])
        for arm, turn in (("stock", sound), ("candidate", candidate))
    ]
    return make.run(passes, **changes)


def test_a_sound_stream_passes_and_says_what_was_checked(make: Any) -> None:
    turn = lambda i: make.turn(20, prompt_ids=(1, 2, i))  # noqa: E731
    gate, figures = check(run_of(make, turn, turn))
    assert (gate.verdict, gate.figure) == ("pass", 0)
    assert figures is not None
    assert figures.checked == ["counts", "ids", "silence", "prompts"]
    assert figures.unknown == ["history", "acceptance"]
    assert (figures.prompts, figures.prompts_different) == (30, 0)


def test_inflated_reports_fail_and_the_worst_is_named(make: Any) -> None:
    gate, _ = check(run_of(make, lambda i: make.turn(20, reported_tokens=20 + (i % 10 == 7) * i)))
    assert gate.verdict == "fail"
    assert "3 of 30 replies report another number of tokens" in gate.sentence
    assert "turn 1 of s27: 47 reported, 20 trusted (+27)" in gate.sentence


def test_an_end_token_that_every_engine_counts_is_no_inflation(make: Any) -> None:
    one_more = lambda i: make.turn(20, reported_tokens=21)  # noqa: E731
    assert check(run_of(make, one_more, one_more))[0].verdict == "pass"


@pytest.mark.parametrize(("reported", "verdict"), [(20, "pass"), (23, "fail")])
def test_where_a_tokenizer_counted_the_sum_is_compared(
    make: Any, reported: int, verdict: str
) -> None:
    turn = lambda i: make.turn(20, source="tokenizer", reported_tokens=reported)  # noqa: E731
    stock = lambda i: make.turn(20, source="tokenizer", reported_tokens=20)  # noqa: E731
    assert check(run_of(make, turn, stock))[0].verdict == verdict


@pytest.mark.parametrize(("wrong", "verdict"), [(1, "pass"), (15, "fail")])
def test_ids_that_do_not_decode_to_the_text(make: Any, wrong: int, verdict: str) -> None:
    turn = lambda i: make.turn(20, source="ids" if i >= wrong else "tokenizer")  # noqa: E731
    gate, figures = check(run_of(make, turn))
    assert gate.verdict == verdict
    assert figures is not None
    assert figures.undecodable == wrong


def test_tokens_without_text_fail(make: Any) -> None:
    loud = ((0.1, 1, 4), (1.0, 19, 76))
    quiet = ((0.1, 1, 4), (1.0, 19, 76), (1.1, 8, 0))
    sound = lambda i: make.turn(20, arrivals=(*loud, (1.1, 1, 0)))  # noqa: E731
    assert check(run_of(make, sound))[0].verdict == "pass"  # its end
    gate, _ = check(run_of(make, lambda i: make.turn(28, arrivals=quiet)))
    assert gate.verdict == "fail"
    assert "come without any text" in gate.sentence
    assert "come after the text has ended" in gate.sentence
    assert "characters of text" in gate.sentence


def test_other_prompt_ids_fail_and_the_first_difference_is_named(make: Any) -> None:
    gate, figures = check(
        run_of(
            make,
            lambda i: make.turn(20, prompt_ids=(1, 2, 3) if i != 4 else (1, 9, 3)),
            lambda i: make.turn(20, prompt_ids=(1, 2, 3)),
        )
    )
    assert gate.verdict == "fail"
    assert "first in s4 at position 1: id 9 for stock's id 2" in gate.sentence
    assert figures is not None
    assert (figures.prompts, figures.prompts_different) == (30, 1)


def test_a_prompt_that_was_cut_is_named_at_its_end(make: Any) -> None:
    gate, _ = check(
        run_of(
            make,
            lambda i: make.turn(20, prompt_ids=(1,)),
            lambda i: make.turn(20, prompt_ids=(1, 2)),
        )
    )
    assert "at position 1: the end for stock's id 2" in gate.sentence


@pytest.mark.parametrize(("second", "verdict"), [(60, "pass"), (30, "fail")])
def test_a_history_that_shrinks_fails(make: Any, second: int, verdict: str) -> None:
    def played(prompt: int) -> list[Any]:
        turns = (make.turn(20, prompt_tokens=50), make.turn(20, prompt_tokens=prompt, index=1))
        return [make.play(f"s{i}", turns=turns) for i in range(20)]

    passes = [make.one_pass("stock", 0, played(60)), make.one_pass("candidate", 0, played(second))]
    assert check(make.run(passes))[0].verdict == verdict


SPECULATIVE = '{"method": "eagle3", "rejection_sample_method": "synthetic"}'


@pytest.mark.parametrize(
    ("words", "env", "found"),
    [
        (["vllm", "--speculative-config", SPECULATIVE], {}, "rejection_sample_method: synthetic"),
        (["vllm", "--speculative-config.synthetic_acceptance_length=3"], {}, "synthetic_accept"),
        (["--rejection-sample-method", "synthetic"], {}, "synthetic"),
        (["engine", "--attack=synthetic"], {}, "--attack=synthetic"),
        ([], {"SGLANG_SIMULATE_ACC_LEN": "3.5"}, "SGLANG_SIMULATE_ACC_LEN=3.5"),
        (["env", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS=2"], {}, "TLLM_SPEC_DECODE_FORCE"),
        (["vllm", "serve", "/models/synthetic/qwen"], {"DATA": "my-synthetic-data"}, None),
        (["vllm", "--speculative-config", '{"rejection_sample_method": "block"}'], {}, None),
        ([], {"SGLANG_SIMULATE_ACC_LEN": "-1"}, None),
        ([], {"DATASET": "synthetic"}, None),
        ([], {"SPECULATIVE_CONFIG": SPECULATIVE}, "SPECULATIVE_CONFIG="),
        (["python", "-m", "loadjudge.reference", "--redteam", "synthetic"], {}, "synthetic"),
    ],
)
def test_forced_acceptance_is_found_in_the_configuration(
    words: list[str], env: dict[str, str], found: str | None
) -> None:
    said = forced_acceptance(words, env)
    assert (said is None) == (found is None)
    assert (found or "") in (said or "")


def test_forced_acceptance_fails_whoever_started_the_engine(make: Any) -> None:
    event = {"arm": "candidate", "state": "ready", "command": ["v", "--spec", SPECULATIVE]}
    gate, _ = check(run_of(make, lambda i: make.turn(20), engines=(event,)))
    assert gate.verdict == "fail"
    assert "forces acceptance: rejection_sample_method: synthetic" in gate.sentence


def test_without_a_reply_nothing_is_said(make: Any) -> None:
    gate, figures = check(make.run([]))
    assert (gate.verdict, figures) == ("n/a", None)


def test_silent_padding_shows_at_the_end_where_silence_within_replies_varies(make: Any) -> None:
    """Four tokens a reply passed: how many tokens are silent within a reply varies too much."""

    def quiet(i: int, end: int) -> Any:
        arrivals = ((0.1, 1, 4), (0.5, 1 + 7 * (i % 3), 0), (1.0, 30, 76), (1.1, end, 0))
        return make.turn(32 + 7 * (i % 3) + end, arrivals=arrivals)

    assert (
        check(run_of(make, lambda i: quiet(i * i, 1), lambda i: quiet(i, 1)))[0].verdict == "pass"
    )
    gate, _ = check(run_of(make, lambda i: quiet(i * i, 5), lambda i: quiet(i, 1)))
    assert gate.verdict == "fail"
    assert "come after the text has ended" in gate.sentence


def test_replies_that_nobody_counted_tell_no_silence(make: Any) -> None:
    """A run that ended before its replies were counted divided by no tokens."""
    uncounted = make.play("a", None, turns=(make.turn(None, source=None, token_ids=None),))
    passes = [*make.passes("stock", [100]), make.one_pass("candidate", 0, [uncounted])]
    _, figures = check(make.run(passes))
    assert "silence" in figures.unknown
