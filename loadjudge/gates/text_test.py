"""Are both arms' replies to the same prompts drawn alike, as text? Design: statistics, section 2.

Where an endpoint gives neither token ids nor log-probabilities this takes the likelihood gates'
place: maximum mean discrepancy with a Hamming kernel on characters, p by permuting the arms'
labels within each prompt (Gao, Liang, Guestrin 2024, "Model Equality Testing", arXiv 2410.20247).
Sessions' first turns are what both arms are asked alike, and passes bring several replies to each.

Both arms are asked with the same sampling seed in the same pass, so where engines honour it a
pass's two replies come in a pair that is alike. Shuffling all labels would then see two arms that
are more alike than chance, and be blind. So labels are swapped within pairs alone, and a pair is
never compared with itself: valid whether pairs are alike or not.
"""

from collections.abc import Sequence

import numpy as np

from loadjudge.gates.verdict import not_available
from loadjudge.random import generator
from loadjudge.record.evaluation import Gate, TextTest
from loadjudge.record.values import ARMS, Arm, Floats, RunRecord, TurnRecord

CHARACTERS = 1000  # of a reply, as in the paper; a shorter one is padded, and pads are alike
PERMUTATIONS = 4999
_BATCH = 500

Texts = dict[str, list[tuple[str, str]]]  # prompt → (candidate's, stock's) reply of each pass


def check(run: RunRecord, limit: float | None, seed: int) -> tuple[Gate, TextTest | None]:
    """The p-value must reach ``limit``."""
    sampling = (run.header.get("task") or {}).get("sampling") or {}
    if sampling.get("temperature") == 0:
        return not_available("replies are greedy: nothing is drawn, so nothing can be tested"), None
    replies = first_replies(run)
    figures = discrepancy(replies, seed)
    if figures is None:
        return not_available("no prompt was answered by both arms in two passes"), None
    return judge(figures, limit), figures


def judge(figures: TextTest, limit: float | None) -> Gate:
    measured = (
        f"p = {figures.p:.2g} over {figures.replies:,} replies to {figures.prompts:,} prompts"
    )
    if limit is None:
        return Gate(
            verdict="n/a",
            sentence=f"likeness of the arms' texts: {measured}; this task sets no limit",
            figure=figures.p,
        )
    ok = figures.p >= limit
    clause = (
        "replies to the same prompts are drawn alike as far as their text shows"
        if ok
        else "replies to the same prompts are other texts than stock's"
    )
    return Gate(
        verdict="pass" if ok else "fail",
        sentence=f"{clause}: {measured}, limit {limit:g}",
        figure=figures.p,
        bound_low=limit,
    )


def first_replies(run: RunRecord) -> Texts:
    """Measured replies to sessions' first turns that both arms gave, over workloads and passes."""
    said: dict[tuple[str, str, int, str], dict[Arm, str]] = {}
    for one in run.passes:
        for play in one.measured:
            for turn in play.turns[:1]:
                if turn.error is None:
                    key = (play.session, one.workload, one.number, play.play)
                    said.setdefault(key, {})[one.arm] = _text(turn)
    texts: Texts = {}
    for (session, *_), arms in said.items():
        if len(arms) == len(ARMS):
            texts.setdefault(session, []).append((arms["candidate"], arms["stock"]))
    return texts


def _text(turn: TurnRecord) -> str:
    calls = "".join(c["name"] + c["arguments"] for c in turn.tool_calls)
    return turn.reasoning + turn.content + calls


def discrepancy(texts: Texts, seed: int, permutations: int = PERMUTATIONS) -> TextTest | None:
    """The mean over prompts of MMD² and its p-value. None: no prompt has two pairs.

    For pairs (c_i, s_i): MMD² is the mean over i ≠ j of h_ij = K(c_i, c_j) + K(s_i, s_j) −
    K(c_i, s_j) − K(s_i, c_j). Swapping pair i turns the sign of all its h_ij.
    """
    usable = [pairs for pairs in texts.values() if len(pairs) > 1]
    if not usable:
        return None
    rng = generator(seed, "text test")
    observed = 0.0
    permuted = np.zeros(permutations)
    for pairs in usable:
        n = len(pairs)
        kernel = hamming([text for arm in zip(*pairs, strict=True) for text in arm])
        h = kernel[:n, :n] + kernel[n:, n:] - kernel[:n, n:] - kernel[n:, :n]
        np.fill_diagonal(h, 0.0)
        h /= n * (n - 1)
        observed += float(h.sum())
        for start in range(0, permutations, _BATCH):
            size = min(_BATCH, permutations - start)
            signs = rng.choice(np.array([-1.0, 1.0]), (size, n))
            permuted[start : start + size] += ((signs @ h) * signs).sum(1)
    reached = int((permuted >= observed - 1e-12).sum())
    return TextTest(
        statistic=observed / len(usable),
        p=(1 + reached) / (1 + permutations),
        prompts=len(usable),
        replies=2 * sum(map(len, usable)),
        permutations=permutations,
    )


def hamming(texts: Sequence[str], characters: int = CHARACTERS) -> Floats:
    """The share of places at which two texts have the same character. [texts, texts]"""
    width = min(max(map(len, texts), default=0), characters) or 1
    codes = np.zeros((len(texts), width), np.uint32)
    for row, text in zip(codes, texts, strict=True):
        cut = text[:width].encode("utf-32-le", "surrogatepass")
        row[: len(cut) // 4] = np.frombuffer(cut, np.uint32)
    return np.stack([(codes == row).mean(1) for row in codes])
