"""Takes out of what is recorded what must not be kept. Pure."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import orjson

from loadjudge.errors import JudgeError, Status

_EMAIL = re.compile(r"[A-Za-z0-9._%+'-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,8}[A-Za-z]{2,24}\b")

# What the issuers of keys say that theirs look like, then anything that is called one.
_KEYS = re.compile(
    r"""
    \b(?:sk|pk|rk)[-_](?:[A-Za-z0-9]+[-_])*[A-Za-z0-9_-]{16,}   # OpenAI, Anthropic, Stripe
    | \b(?:AKIA|ASIA)[0-9A-Z]{16}\b                              # AWS
    | \bgh[pousr]_[A-Za-z0-9]{30,}\b | \bgithub_pat_\w{30,}      # GitHub
    | \bglpat-[\w-]{20,}                                         # GitLab
    | \bhf_[A-Za-z0-9]{30,}\b                                    # Hugging Face
    | \bxox[abposr]-[A-Za-z0-9-]{10,}                            # Slack
    | \bAIza[\w-]{35}                                            # Google
    | \beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}                     # JSON web tokens
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----[\s\S]*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | (?<=Bearer\ )[A-Za-z0-9._~+/=-]{16,}
    | (?i:(?<=api_key=)|(?<=api-key=)|(?<=apikey=)|(?<=api_key:\ )|(?<=api-key:\ )
        |(?<=token=)|(?<=password=)|(?<=secret=))[^\s"'&,;]{6,}
    """,
    re.VERBOSE,
)

# International with a plus, or ten digits of North America with their usual separators.
_PHONE = re.compile(
    r"(?<![\w+.])(?:\+\d{1,3}[ .-]?(?:\(\d{1,4}\)[ .-]?)?\d(?:[ .-]?\d){6,12}"
    r"|(?:1[ .-])?(?:\(\d{3}\)[ .-]?|\d{3}[ .-])\d{3}[ .-]\d{4})(?![\w])"
)
_CARD = re.compile(r"(?<![\w.])\d(?:[ -]?\d){12,18}(?![\w])")


@dataclass(frozen=True, slots=True)
class Pattern:
    """What is taken out, and what it is called in its place."""

    name: str
    find: re.Pattern[str]
    holds: Callable[[str], bool] = lambda _: True


def luhn(text: str) -> bool:
    """Whether the digits of a text carry a card number's check digit."""
    digits = [int(c) for c in text if c.isdigit()]
    doubled = [d if i % 2 == 0 else d * 2 - 9 * (d > 4) for i, d in enumerate(reversed(digits))]
    return 13 <= len(digits) <= 19 and any(digits) and sum(doubled) % 10 == 0


BUILT_IN = {
    "keys": Pattern("key", _KEYS),
    "email": Pattern("email", _EMAIL),
    "card": Pattern("card", _CARD, luhn),
    "phone": Pattern("phone", _PHONE),
}


def patterns_of(names: Sequence[str], custom: Sequence[str]) -> tuple[Pattern, ...]:
    """The built-in patterns of these names (``all``: each of them), and one's own.

    Raises JudgeError (usage) for a name that there isn't, or what is no regular expression, or one
    that finds nothing at all in everything.
    """
    wanted = [part for name in names for part in name.split(",") if part]
    unknown = [name for name in wanted if name not in (*BUILT_IN, "all")]
    if unknown:
        raise JudgeError(
            f"--redact takes {', '.join(BUILT_IN)} or all, not {unknown[0]!r}; "
            "a regular expression goes into --redact-pattern",
            Status.USAGE,
        )
    chosen = [p for name, p in BUILT_IN.items() if name in wanted or "all" in wanted]
    for text in custom:
        try:
            find = re.compile(text)
        except re.error as error:
            raise JudgeError(
                f"--redact-pattern {text!r} is no regular expression: {error}", Status.USAGE
            ) from None
        if find.search("") is not None:
            raise JudgeError(
                f"--redact-pattern {text!r} also finds the empty text, which is everywhere",
                Status.USAGE,
            )
        chosen.append(Pattern("pattern", find))
    return tuple(chosen)


class Redactor:
    """Applies patterns to every text in a JSON value. ``count``: places taken out so far."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.count = 0
        self._patterns = tuple(patterns)

    def text(self, text: str) -> str:
        """The text, each find replaced by ``[redacted: name]``."""
        for pattern in self._patterns:
            text = pattern.find.sub(lambda m, p=pattern: self._put(p, m[0]), text)  # type: ignore[misc]
        return text

    def value(self, value: Any) -> Any:
        """The same for all strings and numbers in a value; its keys stay, unless they match."""
        if not self._patterns:
            return value
        if isinstance(value, str):
            return self.text(value)
        if isinstance(value, dict):
            return {self.text(key): self.value(item) for key, item in value.items()}
        if isinstance(value, list):
            return [self.value(item) for item in value]
        if isinstance(value, int | float) and not isinstance(value, bool):
            said = repr(value)
            redacted = self.text(said)
            return value if redacted == said else redacted
        return value

    def arguments(self, text: str) -> str:
        """The arguments of a call: JSON stays JSON, whatever is taken out of it."""
        if not self._patterns:
            return text
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            return self.text(text)
        redacted = self.value(value)
        return text if redacted == value else orjson.dumps(redacted).decode()

    def message(self, message: dict[str, Any]) -> dict[str, Any]:
        """A message. Ids of calls stay: they pair calls with results."""
        out = {
            key: item if key in ("role", "tool_call_id", "tool_calls") else self.value(item)
            for key, item in message.items()
        }
        if isinstance(message.get("tool_calls"), list):
            out["tool_calls"] = [self._call(call) for call in message["tool_calls"]]
        return out

    def _call(self, call: Any) -> Any:
        function = call.get("function") if isinstance(call, dict) else None
        if not isinstance(function, dict):
            return self.value(call)
        arguments = function.get("arguments")
        hidden = self.arguments(arguments) if isinstance(arguments, str) else self.value(arguments)
        return {**call, "function": {**function, "arguments": hidden}}

    def _put(self, pattern: Pattern, found: str) -> str:
        if not pattern.holds(found):
            return found
        self.count += 1
        return f"[redacted: {pattern.name}]"
