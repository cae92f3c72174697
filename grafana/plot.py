"""Lines over time as an SVG that follows the page's colours. Pure."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise

_ARMS = ("stock", "candidate", "mirror")
_PALETTE = ("--c1", "--c2", "--c3", "--c4", "--c5", "--c6")
_ON_AXIS = {"tokens/s": "short", "reqps": "short", "Bps": "bytes"}  # the title says it
_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600)
_LEFT, _RIGHT, _TOP, _FOOT = 58, 16, 6, 20


@dataclass(frozen=True)
class Line:
    """A series: seconds since the epoch and values, not all of them finite."""

    name: str
    points: tuple[tuple[float, float], ...]


def colour(name: str, others: Sequence[str]) -> str:
    """An arm has its own; other names are numbered off, without the ends of intervals."""
    for arm in _ARMS:
        if name.startswith(arm):
            return f"--{arm}"
    order = sorted({_stem(o) for o in others if not o.startswith(_ARMS)})
    return _PALETTE[order.index(_stem(name)) % len(_PALETTE)]


def _stem(name: str) -> str:
    return re.sub(r" (low|high|p50|p99)$", "", name)


def dash(name: str) -> str:
    """p99 and wanted are dashed, ends of intervals dotted."""
    if re.search(r"p99$|wanted$", name):
        return "5 3"
    return "1.5 3" if re.search(r" (low|high|as the engine says)$", name) else ""


def ticks(low: float, high: float, *, whole: bool = False) -> list[float]:
    """Some four round numbers between two others."""
    rough = (high - low) / 4
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(m * power for m in (1, 2, 2.5, 5, 10) if m * power >= rough * 0.999)
    return _multiples(max(step, 1.0) if whole else step, low, high)


def seconds(span: float) -> list[float]:
    """Some six round times from 0, in the steps of a clock."""
    step = next((s for s in _STEPS_S if s >= span / 6), math.ceil(span / 6 / 3600) * 3600.0)
    return _multiples(step, 0.0, span)


def _scale(unit: str, value: float) -> float:
    """What an axis counts in: bytes in powers of 1024."""
    if unit not in ("bytes", "Bps") or value < 1:
        return 1.0
    return 1024.0 ** int(math.log(value, 1024))


def _multiples(step: float, low: float, high: float) -> list[float]:
    first = math.ceil(low / step - 1e-9)
    return [n * step for n in range(first, math.floor(high / step + 1e-9) + 1)]


def say(value: float, unit: str, decimals: int | None = None) -> str:
    """A number as Grafana says it."""
    if not math.isfinite(value):
        return "∞" if value > 0 else "–"
    if unit == "s":
        for name, factor in (("s", 1.0), ("ms", 1e3), ("µs", 1e6)):
            if abs(value) * factor >= 1 or name == "µs":
                return "0 s" if value == 0 else f"{value * factor:.3g} {name}"
    if unit == "percentunit":
        return f"{value * 100:.3g} %"
    if unit in ("bytes", "Bps"):
        steps = (("GiB", 2**30), ("MiB", 2**20), ("KiB", 2**10), ("B", 1))
        name, factor = next(s for s in steps if abs(value) >= s[1] or s[1] == 1)
        return f"{value / factor:.3g} {name}{'/s' if unit == 'Bps' else ''}"
    ends = {"x": "×", "tokens/s": " tokens/s", "reqps": " req/s"}
    number = f"{value:,.{decimals}f}" if decimals is not None else f"{value:,.4g}"
    return number + ends.get(unit, "")


def svg(
    lines: Sequence[Line],
    start: float,
    end: float,
    unit: str,
    least: float | None,
    most: float | None,
    width: int,
    height: int,
    *,
    whole: bool,
) -> str:
    """The lines of a panel; a gap where there is no value, or none that is finite.

    ``whole``: they are numbers of things.
    """
    values = [v for line in lines for _, v in line.points if math.isfinite(v)]
    low = min(values) if least is None else min(least, *values)
    high = max(values) if most is None else max(most, *values)
    room = (high - low) * 0.06 or abs(high) * 0.1 or 1.0
    low, high = (
        (low if least is not None else low - room),
        (high if most is not None else high + room),
    )
    w, h = width - _LEFT - _RIGHT, height - _TOP - _FOOT

    def x(t: float) -> float:
        return _LEFT + w * (t - start) / (end - start)

    def y(value: float) -> float:
        return _TOP + h * (1 - (value - low) / (high - low))

    drawn = []
    scale = _scale(unit, max(abs(low), abs(high)))
    for tick in (scale * n for n in ticks(low / scale, high / scale, whole=whole)):
        at = y(tick)
        drawn.append(f'<path class="grid" d="M{_LEFT} {at:.1f}h{w}"/>')
        said = say(tick, _ON_AXIS.get(unit, unit))
        drawn.append(f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" class="end">{said}</text>')
    for second in seconds(end - start):
        at = x(start + second)
        drawn.append(f'<text x="{at:.1f}" y="{height - 4}" class="mid">{_clock(second)}</text>')
    names = [line.name for line in lines]
    step = min(
        (t - before for line in lines for (before, _), (t, _) in pairwise(line.points)),
        default=0.0,
    )
    for line in lines:
        path = _path(
            [(x(t), y(v)) for t, v in line.points if math.isfinite(v)],
            1.5 * step * w / (end - start),
        )
        style = f"stroke:var({colour(line.name, names)})"
        pattern = f' stroke-dasharray="{dash(line.name)}"' if dash(line.name) else ""
        drawn.append(f'<path class="line" style="{style}"{pattern} d="{path}"/>')
    return f'<svg viewBox="0 0 {width} {height}" role="img">{"".join(drawn)}</svg>'


def legend(lines: Sequence[Line], unit: str, decimals: int | None) -> str:
    """Names with their last value."""
    names = [line.name for line in lines]
    entries = []
    for line in lines:
        last = next((v for _, v in reversed(line.points) if math.isfinite(v)), math.nan)
        pattern = f' stroke-dasharray="{dash(line.name)}"' if dash(line.name) else ""
        key = (
            f'<svg class="key" viewBox="0 0 18 8"><path class="line" d="M0 4h18"{pattern} '
            f'style="stroke:var({colour(line.name, names)})"/></svg>'
        )
        entries.append(f"<span>{key}{escape(line.name)} <b>{say(last, unit, decimals)}</b></span>")
    return f'<p class="legend">{"".join(entries)}</p>'


def _path(points: list[tuple[float, float]], widest: float) -> str:
    """A line through points, with a gap where two are wider apart."""
    path, before = [], -math.inf
    for x, y in points:
        path.append(f"{'L' if x - before <= widest else 'M'}{x:.1f} {y:.1f}")
        before = x
    return "".join(path)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes}:{rest:02d}"
