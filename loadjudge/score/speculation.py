"""Tokens per verify step, from what an engine's counters gained."""

from collections.abc import Iterable, Mapping


def tokens_per_step(counters: Iterable[Mapping[str, float] | None]) -> float | None:
    """1 + Δaccepted / Δdrafts over all windows that have both; None where there is no draft."""
    counted = [c for c in counters if c and c.keys() >= {"drafts", "accepted"}]
    drafts = sum(c["drafts"] for c in counted)
    return 1 + sum(c["accepted"] for c in counted) / drafts if drafts else None
