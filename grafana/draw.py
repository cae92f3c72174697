"""A dashboard as one HTML file, without Grafana: the same panels and queries on a Prometheus.

python -m grafana.draw judge --last 10m > judge.html
"""

import argparse
import math
import re
import sys
import time
from html import escape
from typing import Any

import httpx

from grafana.dashboards import DASHBOARDS
from grafana.plot import Line, colour, legend, say, svg

_POINTS = 240
_CELL = 56  # px of a grid unit, of the width that panels are drawn for
_STYLE = """
:root { color-scheme: light dark; --paper:#fff; --ink:#1a1d20; --muted:#59626a; --rule:#dde1e4;
  --tint:#f5f7f8; --stock:#0068a8; --candidate:#b84a00; --mirror:#7a3e9d;
  --c1:#11713f; --c2:#6a4fb3; --c3:#855400; --c4:#00707a; --c5:#a3195b; --c6:#59626a; }
@media (prefers-color-scheme: dark) { :root { --paper:#14171a; --ink:#e7eaec; --muted:#a0a9b1;
  --rule:#31383e; --tint:#1b1f23; --stock:#62b8f0; --candidate:#f5a04e; --mirror:#cf9bea;
  --c1:#62d297; --c2:#b3a1f5; --c3:#f2bd55; --c4:#5fd0d8; --c5:#ff8fc0; --c6:#a0a9b1; } }
body { margin:20px; background:var(--paper); color:var(--ink); font:14px/1.4 system-ui,sans-serif; }
h1 { font-size:20px; margin:0 0 14px; } h2 { font-size:13px; margin:0 0 4px; font-weight:600; }
main { display:grid; grid-template-columns:repeat(24,minmax(0,1fr)); gap:8px; }
section { background:var(--tint); border:1px solid var(--rule); border-radius:4px; padding:8px 10px;
  overflow:hidden; }
svg { width:100%; display:block; } svg text { font-size:11px; fill:var(--muted); }
.end { text-anchor:end; } .mid { text-anchor:middle; } .grid { stroke:var(--rule); fill:none; }
.line { fill:none; stroke-width:1.8; stroke-linejoin:round; } svg.key { width:18px; display:inline;
  margin-right:4px; }
.legend { margin:2px 0 0; font-size:12px; color:var(--muted); display:flex; flex-wrap:wrap;
  gap:0 14px; } .legend b, td { color:var(--ink); font-weight:500;
  font-variant-numeric:tabular-nums; }
.stats { display:flex; flex-wrap:wrap; gap:2px 22px; align-items:baseline; } .stats b {
  font-size:22px; font-weight:600; display:block; line-height:1.25; }
.stats span { font-size:12px; color:var(--muted); }
table { border-collapse:collapse; width:100%; font-size:13px; } th { text-align:left;
  color:var(--muted); font-weight:400; } td, th { padding:2px 10px 2px 0;
  border-top:1px solid var(--rule); } td:last-child, th:last-child { padding-right:0; }
.bars { display:grid; grid-template-columns:max-content 1fr max-content; gap:10px 8px;
  align-items:center; margin:5px 0; font-size:12px; }
.bars i { display:block; height:12px; border-radius:2px; }
"""


class Source:
    """A Prometheus, and the time that is looked at."""

    def __init__(self, url: str, start: float, end: float, rate: str) -> None:
        self._http = httpx.Client(base_url=url)
        self.start, self.end, self._rate = start, end, rate
        self._instances = ".*"

    def choose(self, variable: str, instances: str | None) -> None:
        """Looks at the exporters that a dashboard's variable finds, or at ``instances`` (regex)."""
        if instances is not None:
            self._instances = instances.replace("\\", "\\\\")
            return
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable)
        assert found is not None
        time = {"start": self.start, "end": self.end}
        path = f"/api/v1/label/{found[2]}/values"
        values = self._get(path, {"match[]": found[1], **time})
        self._instances = "|".join(re.escape(value) for value in values).replace("\\", "\\\\")

    def lines(self, target: dict[str, Any]) -> list[Line]:
        found = self._ask(
            "query_range", target, start=self.start, end=self.end,
            step=max(0.5, (self.end - self.start) / _POINTS),
        )  # fmt: skip
        return [
            Line(
                _named(target, one["metric"]),
                tuple((t, float(value)) for t, value in one["values"]),
            )
            for one in found
        ]

    def now(self, target: dict[str, Any]) -> list[tuple[str, dict[str, str], float]]:
        """Names, labels and values at the end."""
        found = self._ask("query", target, time=self.end)
        return [
            (_named(target, one["metric"]), one["metric"], float(one["value"][1])) for one in found
        ]

    def _ask(self, what: str, target: dict[str, Any], **parameters: float) -> list[Any]:
        query = target["expr"].replace("$__rate_interval", self._rate)
        query = query.replace("$__range", f"{math.ceil(self.end - self.start)}s")
        query = query.replace("$instance", self._instances)
        return list(self._get(f"/api/v1/{what}", {"query": query, **parameters})["result"])

    def _get(self, path: str, parameters: dict[str, Any]) -> Any:
        answer = self._http.get(path, params=parameters).json()
        if answer["status"] != "success":
            raise SystemExit(f"{parameters}: {answer['error']}")
        return answer["data"]


def _named(target: dict[str, Any], labels: dict[str, str]) -> str:
    return re.sub(
        r"\{\{(\w+)\}\}", lambda found: labels.get(found[1], ""), target["legendFormat"]
    ).strip()


def page(name: str, source: Source, instances: str | None = None) -> str:
    """The whole dashboard."""
    dashboard = DASHBOARDS[name]
    source.choose(dashboard["templating"]["list"][0]["query"]["query"], instances)
    panels = "".join(_panel(panel, source) for panel in dashboard["panels"])
    title = escape(dashboard["title"])
    return (
        f'<!doctype html><html lang="en"><meta charset="utf-8"><title>{title}</title>'
        f"<style>{_STYLE}</style><h1>{title}</h1><main>{panels}</main></html>\n"
    )


def _panel(panel: dict[str, Any], source: Source) -> str:
    draw = {"timeseries": _lines, "table": _table, "bargauge": _bars}.get(panel["type"], _stats)
    width, height = panel["gridPos"]["w"], panel["gridPos"]["h"]
    return (
        f'<section style="grid-column:span {width}" title="{escape(panel["description"])}">'
        f"<h2>{escape(panel['title'])}</h2>{draw(panel, source, width, height)}</section>"
    )


def _lines(panel: dict[str, Any], source: Source, width: int, height: int) -> str:
    shape = panel["fieldConfig"]["defaults"]
    lines = [line for target in panel["targets"] for line in source.lines(target)]
    if not any(math.isfinite(v) for line in lines for _, v in line.points):
        return "<p>No data</p>"
    least, most, unit = shape.get("min"), shape.get("max"), shape["unit"]
    size = width * _CELL, height * 26
    decimals = shape.get("decimals")
    whole = decimals == 0
    drawn = svg(lines, source.start, source.end, unit, least, most, *size, whole=whole)
    return drawn + legend(lines, unit, decimals)


def _stats(panel: dict[str, Any], source: Source, width: int, height: int) -> str:
    shape = panel["fieldConfig"]["defaults"]
    stats = []
    for target in panel["targets"]:
        for name, _, value in source.now(target):
            if panel["options"].get("textMode") == "name":
                stats.append(f"<span><b>{escape(name)}</b></span>")
            else:
                said = say(value, shape["unit"], shape.get("decimals"))
                ink = colour(name, [name]) if name.startswith(("stock", "cand", "mir")) else "--ink"
                said = f'<b style="color:var({ink})">{said}</b>'
                stats.append(f"<span>{said}{escape(name)}</span>")
    return f'<div class="stats">{"".join(stats) or "No data"}</div>'


def _bars(panel: dict[str, Any], source: Source, width: int, height: int) -> str:
    shape = panel["fieldConfig"]["defaults"]
    found = [one for target in panel["targets"] for one in source.now(target)]
    found.sort(key=lambda one: (len(one[0]), one[0]))
    most = shape.get("max", 1)
    bars = "".join(
        f"<span>{escape(name)}</span>"
        f'<i style="width:{100 * min(value / most, 1):.1f}%;'
        f'background:var({"--stock" if name.startswith("stock") else "--candidate"})"></i>'
        f"<span>{say(value, shape['unit'])}</span>"
        for name, _, value in found
    )
    return f'<div class="bars">{bars}</div>' if bars else "<p>No data</p>"


def _table(panel: dict[str, Any], source: Source, width: int, height: int) -> str:
    """A row a gate or workload, a column a query; a verdict is a label."""
    by = panel["transformations"][0]["options"]["byField"]
    heads = list(panel["transformations"][1]["options"]["renameByName"].values())
    rows: dict[str, dict[str, str]] = {}
    for head, target in zip(heads, panel["targets"], strict=True):
        for _, labels, value in source.now(target):
            said = labels["verdict"] if head == "verdict" else f"{value:.4g}".replace("-", "−")
            rows.setdefault(labels[by], {})[head] = said
    top = "".join(f"<th>{head}</th>" for head in (by, *heads))
    body = "".join(
        f"<tr><td>{escape(name)}</td>"
        + "".join(f"<td>{row.get(head, '')}</td>" for head in heads)
        + "</tr>"
        for name, row in rows.items()
    )
    return f"<table><tr>{top}</tr>{body}</table>"


def main() -> None:
    flags = argparse.ArgumentParser(description=__doc__)
    flags.add_argument("dashboard", choices=tuple(DASHBOARDS))
    flags.add_argument("--prometheus", default="http://localhost:9090", metavar="URL")
    flags.add_argument("--last", default="30m", help="How far back: 90s, 30m, 2h.")
    flags.add_argument("--end", type=float, help="Seconds since the epoch; now by default.")
    flags.add_argument("--instance", metavar="REGEX", help="Exporters; all of its kind by default.")
    flags.add_argument("--rate", default="20s", help="The range of rates: 4 scrapes or more.")
    given = flags.parse_args()
    found = re.fullmatch(r"(\d+)([smh])", given.last)
    if not found:
        flags.error(f"--last takes a time as 90s, 30m or 2h, not {given.last!r}")
    seconds = int(found[1]) * {"s": 1, "m": 60, "h": 3600}[found[2]]
    end = given.end or time.time()
    try:
        sys.stdout.write(
            page(
                given.dashboard,
                Source(given.prometheus, end - seconds, end, given.rate),
                given.instance,
            )
        )
    except httpx.HTTPError as error:
        raise SystemExit(f"{given.prometheus}: {error}") from None


if __name__ == "__main__":
    main()
