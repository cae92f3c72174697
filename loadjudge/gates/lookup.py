"""What a prompt lookup would propose at each token of a reply. Pure.

N-gram speculation, and many a draft besides, proposes what followed the last tokens when they
were last seen. An engine that accepts its drafts too easily takes that token oftener than the
target would; so how often a reply takes it, less what the target expects, is a statistic that
needs far fewer tokens than the likelihood to see it. The judge makes the proposal itself, from
the ids of prompt and reply, whatever the engine speculates with.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Ids = NDArray[np.int64]

NOTHING = -1
LONGEST = 5  # tokens that are matched

_ODD = np.uint64(0x9E3779B97F4A7C15)


def proposals(prompt_ids: Sequence[int], reply_ids: Sequence[int]) -> Ids:
    """For each token of the reply the id that followed the longest earlier occurrence, of 2 to 5
    tokens, of what stands before it; the most recent of equally long ones; −1: none. [reply]"""
    ids = np.array([*prompt_ids, *reply_ids], np.int64)
    n, start = len(ids), len(prompt_ids)
    proposed = np.full(n, NOTHING, np.int64)
    token = ids.astype(np.uint64) + np.uint64(1)
    gram = token  # by its first token's place, a hash of the tokens of one length
    for length in range(2, min(LONGEST, n) + 1):
        gram = gram[:-1] * _ODD + token[length - 1 :]
        last = _last_like(gram)[:-1]  # nothing follows the last one
        at = np.flatnonzero(last >= 0)
        proposed[at + length] = ids[last[at] + length]
    return proposed[start:]


def _last_like(keys: NDArray[np.uint64]) -> Ids:
    """For each key the place of the last equal one before it, or −1."""
    order = np.argsort(keys, kind="stable")
    same = keys[order[1:]] == keys[order[:-1]]
    last = np.full(len(keys), NOTHING, np.int64)
    last[order[1:][same]] = order[:-1][same]
    return last
