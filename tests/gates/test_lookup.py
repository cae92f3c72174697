"""What a prompt lookup proposes, against the plain definition."""

import numpy as np
import pytest

from loadjudge.gates.lookup import LONGEST, NOTHING, proposals


def by_definition(prompt: list[int], reply: list[int]) -> list[int]:
    ids = [*prompt, *reply]
    found = []
    for at in range(len(prompt), len(ids)):
        earlier = (
            ids[before]
            for length in range(min(LONGEST, at), 1, -1)
            for before in range(at - 1, length - 1, -1)
            if ids[before - length : before] == ids[at - length : at]
        )
        found.append(next(earlier, NOTHING))
    return found


@pytest.mark.parametrize("seed", range(40))
def test_it_is_what_followed_the_longest_and_latest_match(seed: int) -> None:
    rng = np.random.default_rng(seed)
    vocabulary = int(rng.integers(2, 12))
    prompt = rng.integers(0, vocabulary, int(rng.integers(0, 30))).tolist()
    reply = rng.integers(0, vocabulary, int(rng.integers(0, 30))).tolist()
    assert proposals(prompt, reply).tolist() == by_definition(prompt, reply)


def test_a_repeated_phrase_is_proposed_as_it_was() -> None:
    assert proposals([7, 8, 9, 4, 7, 8], [9, 4, 5]).tolist() == [9, 4, 7]


def test_nothing_is_proposed_where_nothing_was_seen() -> None:
    assert proposals([1, 2, 3], [4, 5]).tolist() == [NOTHING, NOTHING]
    assert proposals([], []).tolist() == []
