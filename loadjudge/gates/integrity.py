"""Whether the candidate's stream is what it says it is. Design: statistics, sections 2 and 4.

- **counts**: the reported tokens are the trusted ones, reply for reply where ids are trusted, and
  in the sum where the target's tokenizer counted (it can't see where a reply was not tokenised as
  a tokenizer would). What stock's own reports are off by is allowed.
- **ids**: they decode to the text that was served. A parser that takes markup out breaks a few on
  both arms, so it is more than stock's that counts (Fisher's exact test).
- **silence**: no tokens that add nothing to the text, beyond stock's share: seen as reads that
  bring tokens and no character, anywhere or after the text's last one (one a reply is its end),
  and as fewer characters a token.
- **prompts**: the same messages make the same prompt ids: sessions' first turns.
- **history**: prompts don't shrink from a turn to the next oftener than stock's do.
- **acceptance**: nothing in the configuration forces it.
"""

import itertools
import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

from loadjudge.gates.clusters import difference, sums
from loadjudge.gates.verdict import not_available
from loadjudge.record.evaluation import Gate, Integrity
from loadjudge.record.values import ARMS, Arm, PlayRecord, RunRecord, TurnRecord

RARE = 0.001  # chance of a false alarm for the parts that are a matter of chance
TOKENIZER_SLACK = 0.01  # of the tokens, where the target's tokenizer counted
FEWER_CHARACTERS = 0.05  # of stock's characters a token
_SWITCHES = ("SGLANG_SIMULATE_ACC_LEN", "TLLM_SPEC_DECODE_FORCE_NUM_ACCEPTED_TOKENS")
_OFF = ("", "0", "0.0", "-1", "-1.0", "none", "false")
# vLLM's rejection_sample_method "synthetic", and any flag or key of that name; a path or a name
# that has the word in it is none.
_SYNTHETIC = re.compile(r"synthetic[_-]accept|(?<![\w/.-])synthetic(?![\w/.-])", re.IGNORECASE)
_ABOUT_ACCEPTANCE = re.compile(r"accept|reject|specul|draft", re.IGNORECASE)

Turns = list[tuple[PlayRecord, TurnRecord]]


@dataclass(slots=True)
class _Findings:
    """What the parts found, as they go through a run."""

    violations: list[str] = field(default_factory=list)
    checked: list[str] = field(default_factory=list)
    unknown: list[str] = field(default_factory=list)
    figures: dict[str, Any] = field(default_factory=dict)


def check(run: RunRecord) -> tuple[Gate, Integrity | None]:
    """No violation may be found."""
    turns: dict[Arm, Turns] = {arm: list(_turns(run, arm)) for arm in ARMS}
    if not turns["candidate"]:
        return not_available("the candidate has no measured reply"), None
    found = _Findings()
    for part in (_counts, _ids, _silence, _prompts, _history):
        part(turns["candidate"], turns["stock"], found)
    _acceptance(run, found)
    figures = Integrity(
        violations=found.violations,
        checked=found.checked,
        unknown=found.unknown,
        replies=len(turns["candidate"]),
        **found.figures,
    )
    return judge(figures), figures


def judge(figures: Integrity) -> Gate:
    """The gate from its figures; its own figure is the number of violations."""
    checked = f"checked: {', '.join(figures.checked) or 'nothing'}"
    if figures.unknown:
        checked += f"; not to be had: {', '.join(figures.unknown)}"
    said = "; ".join(figures.violations) or "the stream is what it says it is"
    return Gate(
        verdict="fail" if figures.violations else "pass",
        sentence=f"{said} ({checked})",
        figure=float(len(figures.violations)),
        bound_high=0.0,
    )


def _turns(run: RunRecord, arm: Arm) -> Iterator[tuple[PlayRecord, TurnRecord]]:
    for one in run.passes:
        if one.arm == arm:
            for play in one.measured:
                for turn in play.turns:
                    if turn.error is None:
                        yield play, turn


def _counts(candidate: Turns, stock: Turns, found: _Findings) -> None:
    """Reported against trusted."""
    ours = [(p, t) for p, t in candidate if t.reported_tokens is not None]
    by_ids = [(p, t, d) for p, t in ours if (d := _over(t)) is not None and t.source == "ids"]
    counted = [t for _, t in ours if t.source == "tokenizer" and t.tokens]
    if not by_ids and not counted:
        found.unknown.append("counts")
        return
    found.checked.append("counts")
    allowed = {d for _, t in stock if t.source == "ids" and (d := _over(t)) is not None} | {0}
    wrong = [(p, t, d) for p, t, d in by_ids if not min(allowed) <= d <= max(allowed)]
    found.figures["miscounted"] = len(wrong)
    if wrong:
        play, turn, over = max(wrong, key=lambda w: abs(w[2]))
        found.violations.append(
            f"{len(wrong):,} of {len(by_ids):,} replies report another number of tokens than they "
            f"have, most of all turn {turn.index + 1} of {play.session}: {turn.reported_tokens:,} "
            f"reported, {turn.tokens:,} trusted ({over:+,})".replace("(-", "(−")
        )
    theirs = [t for _, t in stock if t.source == "tokenizer" and t.tokens]
    share = _reported_share(counted)
    usual = _reported_share(theirs) or 1.0
    if share is not None and share > usual + TOKENIZER_SLACK:
        found.violations.append(
            f"the replies report {share:.1%} of the tokens that the target's tokenizer counts in "
            f"them; stock's report {usual:.1%}"
        )


def _over(turn: TurnRecord) -> int | None:
    if turn.tokens is None or turn.reported_tokens is None:
        return None
    return turn.reported_tokens - turn.tokens


def _reported_share(turns: Sequence[TurnRecord]) -> float | None:
    known = [(t.reported_tokens, t.tokens) for t in turns if t.reported_tokens and t.tokens]
    return sum(r for r, _ in known) / sum(n for _, n in known) if known else None


def _ids(candidate: Turns, stock: Turns, found: _Findings) -> None:
    """Ids that don't decode to the text: the count had to come from elsewhere."""
    given = {arm: [(p, t) for p, t in turns if t.token_ids is not None]
             for arm, turns in (("candidate", candidate), ("stock", stock))}  # fmt: skip
    trusted = any(t.source == "ids" for turns in given.values() for _, t in turns)
    if not given["candidate"] or not trusted:
        found.unknown.append("ids")
        return
    found.checked.append("ids")
    wrong = {arm: [(p, t) for p, t in turns if t.source != "ids"] for arm, turns in given.items()}
    found.figures["undecodable"] = len(wrong["candidate"])
    if _more_often(
        len(wrong["candidate"]), len(given["candidate"]), len(wrong["stock"]), len(given["stock"])
    ):
        play, turn = wrong["candidate"][0]
        found.violations.append(
            f"the token ids of {len(wrong['candidate']):,} of {len(given['candidate']):,} replies "
            f"don't decode to the text that was served, first in turn {turn.index + 1} of "
            f"{play.session}; of stock's, {len(wrong['stock']):,} of {len(given['stock']):,}"
        )


def _more_often(k: int, n: int, of_k: int, of_n: int) -> bool:
    """k of n is more than of_k of of_n by more than chance. With nothing to compare, any is."""
    if not of_n:
        return k > 0
    table = np.array([[k, n - k], [of_k, of_n - of_k]])
    return bool(stats.fisher_exact(table, alternative="greater").pvalue < RARE)


def _silence(candidate: Turns, stock: Turns, found: _Findings) -> None:
    """Tokens that add nothing to the text."""
    quiet = {"candidate": list(_silent(candidate)), "stock": list(_silent(stock))}
    after = {
        "candidate": list(_silent(candidate, after_text=True)),
        "stock": list(_silent(stock, after_text=True)),
    }
    spoken = {"candidate": list(_spoken(candidate)), "stock": list(_spoken(stock))}
    # Replies that nobody counted, as in a run that ended before, have no tokens to speak of.
    if not all(sums(rows[arm]).n for rows in (quiet, after, spoken) for arm in ARMS):
        found.unknown.append("silence")
        return
    found.checked.append("silence")
    parts = (("silent", quiet, 1.0), ("trailing", after, 1.0), ("characters", spoken, -1.0))
    for name, rows, worse in parts:
        ours, theirs = sums(rows["candidate"]), sums(rows["stock"])
        found.figures[f"{name}_candidate"] = ours.mean
        found.figures[f"{name}_stock"] = theirs.mean
        gap = difference(ours, theirs)
        low, high = gap.interval(1 - 2 * RARE)
        allowed = FEWER_CHARACTERS * theirs.mean if name == "characters" else 0.0
        if (low if worse > 0 else -high) <= allowed or abs(gap.value) <= allowed:
            continue
        found.violations.append(
            {
                "silent": f"{ours.mean:.2%} of the tokens come without any text; of stock's, "
                f"{theirs.mean:.2%}",
                "trailing": f"{ours.mean:.2%} of the tokens come after the text has ended; of "
                f"stock's, {theirs.mean:.2%}",
                "characters": f"a token brings {ours.mean:.2f} characters of text; stock's, "
                f"{theirs.mean:.2f}",
            }[name]
        )


def _silent(turns: Turns, *, after_text: bool = False) -> Iterator[tuple[str, float, float, float]]:
    """Tokens of each reply, and those in reads without a character but for one, its end."""
    for play, turn in turns:
        known = [(n, c) for _, n, c in turn.arrivals if n is not None]
        if not known or len(known) < len(turn.arrivals):
            continue
        counted = known
        if after_text:
            last = max((i for i, (_, c) in enumerate(known) if c), default=-1)
            counted = known[last + 1 :]
        silent = sum(n for n, c in counted if not c)
        yield play.session, float(sum(n for n, _ in known)), float(max(silent - 1, 0)), 0.0


def _spoken(turns: Turns) -> Iterator[tuple[str, float, float, float]]:
    for play, turn in turns:
        if turn.tokens:
            characters = sum(c for _, _, c in turn.arrivals)
            yield play.session, float(turn.tokens), float(characters), 0.0


def _prompts(candidate: Turns, stock: Turns, found: _Findings) -> None:
    """The same messages must make the same prompt: first turns of sessions."""
    reference: dict[str, Sequence[int]] = {}
    for play, turn in stock:
        if turn.index == 0 and turn.prompt_ids is not None:
            reference.setdefault(play.session, turn.prompt_ids)
    pairs = [
        (play.session, turn.prompt_ids, reference[play.session])
        for play, turn in candidate
        if turn.index == 0 and turn.prompt_ids is not None and play.session in reference
    ]
    if not pairs:
        found.unknown.append("prompts")
        return
    found.checked.append("prompts")
    wrong = [(s, tuple(a), tuple(b)) for s, a, b in pairs if tuple(a) != tuple(b)]
    found.figures["prompts"] = len(pairs)
    found.figures["prompts_different"] = len(wrong)
    if wrong:
        session, ours, theirs = wrong[0]
        at = next(
            (i for i, (x, y) in enumerate(zip(ours, theirs, strict=False)) if x != y),
            min(len(ours), len(theirs)),
        )
        found.violations.append(
            f"{len(wrong):,} of {len(pairs):,} first prompts have other token ids than stock's for "
            f"the same messages, first in {session} at position {at}: {_id(ours, at)} for stock's "
            f"{_id(theirs, at)}"
        )


def _id(ids: Sequence[int], at: int) -> str:
    return f"id {ids[at]}" if at < len(ids) else "the end"


def _history(candidate: Turns, stock: Turns, found: _Findings) -> None:
    """A prompt that is shorter than the one before it has lost some of the history."""
    (ours, of_ours), (theirs, of_theirs) = _shrunk(candidate), _shrunk(stock)
    if not of_ours:
        found.unknown.append("history")
        return
    found.checked.append("history")
    if _more_often(ours, of_ours, theirs, of_theirs):
        found.violations.append(
            f"{ours:,} of {of_ours:,} prompts are shorter than the one of the turn before; of "
            f"stock's, {theirs:,} of {of_theirs:,}"
        )


def _shrunk(turns: Turns) -> tuple[int, int]:
    """How many prompts shrank, of how many that had one before them."""
    shrunk = followed = 0
    for (before_play, before), (play, turn) in itertools.pairwise(turns):
        a, b = before.prompt_tokens, turn.prompt_tokens
        if play is before_play and a is not None and b is not None:
            followed += 1
            shrunk += b < a
    return shrunk, followed


def _acceptance(run: RunRecord, found: _Findings) -> None:
    """Acceptance that is forced gives a speed that no real draft has."""
    engine = (run.header.get("engines") or {}).get("candidate") or {}
    commands = [e.get("command") for e in run.engines if e.get("arm") == "candidate"]
    words = [engine.get("command"), *commands]
    if not any([engine.get("command"), engine.get("env"), *commands]):
        found.unknown.append("acceptance")
        return
    found.checked.append("acceptance")
    forced = forced_acceptance(_words(words), engine.get("env") or {})
    found.figures["synthetic"] = forced
    if forced:
        found.violations.append(f"the candidate's configuration forces acceptance: {forced}")


def _words(commands: Iterable[Any]) -> list[str]:
    words: list[str] = []
    for command in commands:
        words += [command] if isinstance(command, str) else map(str, command or ())
    return words


def forced_acceptance(words: Sequence[str], env: Mapping[str, Any]) -> str | None:
    """The setting of a command or its environment that forces acceptance; None if none does."""
    for name, value in env.items():
        if name in _SWITCHES and str(value).strip().lower() not in _OFF:
            return f"{name}={value}"
    settings = [f"{name}={value}" for name, value in env.items()]
    for word in (*words, *(s for s in settings if _ABOUT_ACCEPTANCE.search(s))):
        name, _, value = word.partition("=")
        if name in _SWITCHES and value.strip().lower() not in _OFF:
            return word
        if _SYNTHETIC.search(word):
            return _setting(word)
    return None


def _setting(word: str) -> str:
    """The keys at fault of a JSON object, or the word itself."""
    try:
        table = json.loads(word)
    except ValueError:
        return word
    if not isinstance(table, dict):
        return word
    named = [f"{k}: {v}" for k, v in table.items() if _SYNTHETIC.search(f"{k} {v}")]
    return ", ".join(named) or word
