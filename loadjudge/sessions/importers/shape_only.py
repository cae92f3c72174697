"""Traces that carry token counts and no text, which are refused, with the reason."""

from typing import Any

from loadjudge.errors import JudgeError

_BURST_GPT_COLUMNS = ("Request tokens", "Response tokens")


def shape_only_format(record: Any) -> str | None:
    """The name of the trace format whose record this is, where it is one."""
    if not isinstance(record, dict):
        return None
    if "requests" in record and isinstance(record["requests"], list):
        requests = [request for request in record["requests"] if isinstance(request, dict)]
        if any("in" in request or "hash_ids" in request for request in requests):
            return "a Weka (cc-traces) trace"
    has_text = any(key in record for key in ("messages", "text_input", "prompt", "text"))
    if not has_text and ("hash_ids" in record or "input_length" in record):
        return "a Mooncake (timed_trace) trace"
    return None


def is_burst_gpt(first_line: str) -> bool:
    """Whether a file's first line is the header of a BurstGPT CSV."""
    return all(column in first_line for column in _BURST_GPT_COLUMNS)


def refusal(at: str, what: str) -> JudgeError:
    """Why such a trace is not played."""
    return JudgeError(
        f"{at}: this is {what}; it carries token counts, not text, so acceptance and losslessness "
        "cannot be measured on it."
    )
