"""The Retry-After header."""

import time
from email.utils import parsedate_to_datetime


def retry_after_s(value: str | None, now_s: float | None = None) -> float | None:
    """Seconds to wait, at least 0; ``None`` without a readable header.

    The value is a number of seconds or an HTTP date (RFC 9110, 10.2.3), which is compared with
    the wall clock ``now_s`` (Unix seconds).
    """
    if value is None:
        return None
    value = value.strip()
    if value.replace(".", "", 1).isdecimal() and value.isascii():
        return float(value)
    try:
        due_s = parsedate_to_datetime(value).timestamp()
    except ValueError:
        return None
    return max(0.0, due_s - (time.time() if now_s is None else now_s))
