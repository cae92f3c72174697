"""Chat sessions from conversation plans: plans.toml says how they go, words.toml fills them."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from loadjudge.sessions.generate.draw import Draw
from loadjudge.sessions.generate.pasted import PASTED
from loadjudge.sessions.model import Message

_FOLDER = Path(__file__).parent
# «word», «word2», «x:3-90», «x:1.5-9.5», «paste:log»; guillemets, as code and prose are full of
# braces and brackets.
_SLOT = re.compile(r"«([^\W\d]+)(\d?)(?::([^«»]+))?»")
_STEPS = (2, 7)  # messages after the first


@dataclass(frozen=True, slots=True)
class Plan:
    """How a conversation goes; every message in several wordings."""

    id: str
    category: str
    open: tuple[str, ...]
    then: tuple[tuple[str, ...], ...]
    language: str = "en"
    system: tuple[str, ...] = ()
    always_system: bool = False


@cache
def plans() -> tuple[Plan, ...]:
    """The plans of plans.toml."""
    found = tomllib.loads((_FOLDER / "plans.toml").read_text(encoding="utf-8"))["plan"]
    return tuple(Plan(**{key: _frozen(value) for key, value in plan.items()}) for plan in found)


@cache
def words() -> dict[str, tuple[str, ...]]:
    """The slot vocabularies of words.toml."""
    found = tomllib.loads((_FOLDER / "words.toml").read_text(encoding="utf-8"))
    return {name: tuple(values) for name, values in found.items()}


def chat_messages(draw: Draw, plan: Plan) -> list[Message]:
    """The system message, where there is one, and 3 to 8 user messages in a row."""
    slots = Slots(draw)
    messages: list[Message] = []
    if plan.system and (plan.always_system or draw.chance(60)):
        messages.append({"role": "system", "content": slots.fill(draw.pick(plan.system))})
    most = min(_STEPS[1], len(plan.then))
    # The larger of two draws: about five messages a session, as in the development split.
    count = max(draw.between(_STEPS[0], most), draw.between(_STEPS[0], most))
    steps = draw.subset(plan.then, count)
    hasty = draw.chance(40)  # a person who writes in small letters, and does so throughout
    texts = [slots.fill(draw.pick(plan.open))]
    openers = words()[f"opener_{plan.language}"]
    for step in steps:
        text = slots.fill(draw.pick(step))
        if draw.chance(25):
            text = draw.pick(openers) + _lowered(text)
        texts.append(text)
    messages += [{"role": "user", "content": _in_haste(t) if hasty else t} for t in texts]
    return messages


class Slots:
    """The slot values of one session: drawn at first use, kept from then on."""

    def __init__(self, draw: Draw) -> None:
        self._draw = draw
        self._values: dict[str, str] = {}

    def fill(self, text: str) -> str:
        """``text`` with its slots filled, those inside of slot values too."""
        while "«" in text:
            text = _SLOT.sub(self._value, text)
        return text

    def _value(self, match: re.Match[str]) -> str:
        name, digit, range_ = match.groups()
        if name == "paste":  # fresh each time
            return PASTED[range_](self._draw)
        key = name + digit
        if key not in self._values:
            self._values[key] = self._number(range_) if range_ else self._word(name)
        return self._values[key]

    def _number(self, range_: str) -> str:
        low, high = range_.split("-")
        decimals = len(low.partition(".")[2])
        whole = self._draw.between(int(low.replace(".", "")), int(high.replace(".", "")))
        return f"{whole / 10**decimals:.{decimals}f}" if decimals else str(whole)

    def _word(self, name: str) -> str:
        taken = {value for key, value in self._values.items() if key.rstrip("0123456789") == name}
        value = self._draw.pick([word for word in words()[name] if word not in taken])
        return self.fill(value)


def _lowered(text: str) -> str:
    """The text as it goes on after an opener: not after one letter, nor before a capital."""
    second = text[1:2]
    return text[0].lower() + text[1:] if second.islower() and second else text


def _in_haste(text: str) -> str:
    """A small first letter and no full stop at the end, as in a chat window; pastes stay."""
    if "\n" in text or not text[1:2].islower():
        return text
    text = text[0].lower() + text[1:]
    return text[:-1] if text.endswith(".") and not text.endswith("..") else text


def _frozen(value: Any) -> Any:
    return tuple(_frozen(item) for item in value) if isinstance(value, list) else value
