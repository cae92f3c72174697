"""Numbers as people read them. Pure: a value in, a short text out; ``None`` is never a 0."""

import math
from collections.abc import Iterable

from loadjudge.record.evaluation import Interval

UNKNOWN = "unknown"
MISSING = "not recorded"


def times(value: float | None, missing: str = MISSING) -> str:
    """A speedup: ``2.54×``."""
    return missing if value is None else f"{value:.2f}×"


def score(value: float | None, missing: str = MISSING) -> str:
    """A SpecScore, to three places as leaderboards print it."""
    return missing if value is None else f"{value:.3f}"


def span(interval: Interval | None, digits: int = 2, missing: str = MISSING) -> str:
    """A 95 % interval: ``2.31 to 2.78``."""
    if interval is None:
        return missing
    return f"{interval.low:.{digits}f} to {interval.high:.{digits}f}"


def several(values: Iterable[float], digits: int = 2) -> str:
    """Figures of several passes: ``2.56, 2.54, 2.38``."""
    return ", ".join(f"{v:.{digits}f}" for v in values)


def millis(seconds: float | None, unit: str = " ms", missing: str = MISSING) -> str:
    """Seconds as milliseconds, to three significant digits and at least whole milliseconds."""
    if seconds is None or not math.isfinite(seconds):
        return missing
    ms = seconds * 1e3
    digits = 0 if abs(ms) >= 99.95 else 1 if abs(ms) >= 9.995 else 2
    return f"{ms:,.{digits}f}{unit}"


def millis_span(interval: Interval, unit: str = " ms") -> str:
    """An interval of seconds as milliseconds: ``31.0 to 35.2 ms``."""
    low, high = (millis(v, "", "none") for v in (interval.low, interval.high))
    return f"{low} to {high}{unit}"


def count(value: float | None, missing: str = UNKNOWN) -> str:
    """A count with thousands separators."""
    return missing if value is None else f"{value:,.0f}"


def decimal(value: float | None, digits: int = 2, missing: str = UNKNOWN) -> str:
    """A plain figure with thousands separators."""
    return missing if value is None else f"{value:,.{digits}f}"


def share(value: float | None, missing: str = UNKNOWN) -> str:
    """A share as per cent: ``3.2 %``; small ones keep two significant digits."""
    if value is None:
        return missing
    percent = 100 * value
    if percent == 0 or abs(percent) >= 9.95:
        return f"{percent:.0f} %"
    return f"{percent:.2g} %" if abs(percent) < 1 else f"{percent:.1f} %"


def gibibytes(mib: float | None, missing: str = MISSING) -> str:
    """MiB as GiB, or as MiB below one GiB: ``162.5 GiB``."""
    if mib is None:
        return missing
    return f"{mib / 1024:,.1f} GiB" if abs(mib) >= 1024 else f"{mib:,.0f} MiB"


def small(value: float | None, missing: str = MISSING) -> str:
    """Two significant digits, exponents where they help: ``0.012``, ``7.4e-07``."""
    return missing if value is None else f"{value:.2g}"


def signed(value: float | None, digits: int = 4, missing: str = MISSING) -> str:
    """A difference with its sign, minus as a minus: ``+0.0030``, ``−0.0044``."""
    return missing if value is None else f"{value:+.{digits}f}".replace("-", "−")


def plural(n: float, one: str, many: str | None = None) -> str:
    """``1 turn``, ``2 turns``."""
    return f"{count(n)} {one if n == 1 else many or one + 's'}"


def listed(words: Iterable[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    *head, last = list(words) or [""]
    return f"{', '.join(head)} and {last}" if head else last
