"""Axes that look the same on every plot, and the clean SVG that comes of them.

Colours are drawn as sentinels and become CSS variables of the page, so a plot follows the page's
light or dark scheme; text stays text. The output is a function of the input alone.
"""

import html
import io
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from loadjudge.record.values import Arm

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

INK, MUTED, RULE, BAND, PAPER = "#010101", "#020202", "#030303", "#050505", "#060606"
COLOURS: dict[Arm, str] = {"stock": "#070707", "candidate": "#080808"}
VARIABLES = {
    INK: "currentColor",
    MUTED: "var(--muted)",
    RULE: "var(--rule)",
    BAND: "var(--band)",
    PAPER: "var(--paper)",
    COLOURS["stock"]: "var(--stock)",
    COLOURS["candidate"]: "var(--candidate)",
}
LINES: dict[Arm, tuple[float, str]] = {"stock": (1.5, "--"), "candidate": (1.7, "-")}
TEXT_SIZE = 10.5
TOP, RIGHT, FOOT = 24, 10, 40  # px between the axes and the edges
SETTINGS: Any = {  # the stubs want a literal type of some 300 keys
    "svg.fonttype": "none",
    "svg.hashsalt": "loadjudge",
    "font.size": TEXT_SIZE,
    "font.family": "DejaVu Sans",  # ships with matplotlib, and is wider than the page's own
    "text.color": INK,
    "text.parse_math": False,
    "axes.edgecolor": RULE,
    "axes.labelcolor": MUTED,
    "axes.labelsize": TEXT_SIZE,
    "axes.linewidth": 1.0,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "axes.formatter.useoffset": False,
    "grid.color": RULE,
    "grid.linewidth": 0.7,
    "xtick.color": RULE,
    "ytick.color": RULE,
    "xtick.labelcolor": MUTED,
    "ytick.labelcolor": MUTED,
    "xtick.labelsize": TEXT_SIZE,
    "ytick.labelsize": TEXT_SIZE,
    "lines.dashed_pattern": (4.5, 1.6),
    "figure.facecolor": "none",
    "axes.facecolor": "none",
    "savefig.facecolor": "none",
}


@contextmanager
def drawing(width: int, height: int, left: int = 48) -> "Iterator[tuple[Figure, Axes]]":
    """A figure of ``width`` × ``height`` px (a point is a px at the plot's own size).

    Margins are fixed, ``left`` px on the left, so that panels beside each other line up.
    """
    import matplotlib
    from matplotlib.figure import Figure

    with matplotlib.rc_context(SETTINGS):
        figure = Figure(figsize=(width / 72, height / 72))
        axes = figure.add_axes(
            (
                left / width,
                FOOT / height,
                (width - left - RIGHT) / width,
                (height - FOOT - TOP) / height,
            )
        )
        axes.xaxis.set_label_coords(0.5, -23 / (height - FOOT - TOP))
        yield figure, axes


def name_y(axes: "Axes", name: str) -> None:
    """The y axis's unit, level and above the axis, where it is easiest to read."""
    axes.annotate(
        name, (0, 1), xycoords="axes fraction", xytext=(0, 9), textcoords="offset points", c=MUTED
    )


def log_axis(axes: "Axes", low: float, high: float, unit: str = "") -> None:
    """A logarithmic x axis with plain numbers, the closer the shorter it is."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

    decades = np.log10(high / low)
    steps: tuple[float, ...] = (1, 2, 5)
    if decades > 3:
        steps = (1,)
    elif decades > 1.7:
        steps = (1, 3)
    elif decades < 0.8:
        steps = (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8)
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    ticks = [t for p in powers for s in steps if low <= (t := s * 10.0**p) <= high]
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(FixedLocator(ticks))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.6g}{unit}"))


def to_svg(figure: "Figure", key: str, label: str) -> str:
    """Inline SVG. ``key`` makes its ids unique on the page; ``label`` says it in words."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    return clean(out.getvalue(), key, label)


def clean(text: str, key: str, label: str) -> str:
    """Strip what HTML has no use for, shorten numbers, and set colours, ids and the label."""
    text = text[text.index("<svg") :]
    text = re.sub(
        r"<metadata>.*?</metadata>|<!--.*?-->|<defs>\s*<style.*?</defs>", "", text, flags=re.DOTALL
    )
    used = set(re.findall(r'(?:url\(|href=")#(\w+)', text))
    text = re.sub(r"<[^>]*>", lambda tag: _clean_tag(tag[0], key, used), text)
    text = re.sub(r"\n\s*", "\n", text)
    return re.sub(
        r'<svg [^>]*?viewBox="([^"]*)"[^>]*>',
        lambda m: f'<svg viewBox="{m[1]}" role="img" aria-label="{html.escape(label)}">',
        text,
        count=1,
    )


def _clean_tag(tag: str, key: str, used: set[str]) -> str:
    tag = re.sub(r' xmlns(:\w+)?="[^"]*"', "", tag)
    for sentinel, variable in VARIABLES.items():
        tag = tag.replace(sentinel, variable)
    tag = re.sub(r"-?\d+\.\d{3,}", lambda m: f"{float(m[0]):.2f}".rstrip("0").rstrip("."), tag)
    tag = re.sub(r' id="([\w.]+)"', lambda m: f' id="{key}-{m[1]}"' * (m[1] in used), tag)
    tag = tag.replace("url(#", f"url(#{key}-")
    tag = re.sub(r'(?:xlink:)?href="#', f'href="#{key}-', tag)
    tag = tag.replace(" font-family: 'DejaVu Sans';", "")
    return re.sub(r"font: ((?:bold |700 )?)([\d.]+px) [^;\"]*", _font, tag)


def _font(match: re.Match[str]) -> str:
    """The ``font`` shorthand can't inherit the family alone."""
    weight = "font-weight: bold; " if match[1] else ""
    return f"{weight}font-size: {match[2]}"
