"""The dashboards as code: ``python -m grafana.dashboards`` writes dashboards/judge.json,
sweep.json and proxy.json."""

import json
from pathlib import Path
from typing import Any

from grafana.judge import JUDGE
from grafana.panel import Panel
from grafana.proxy import PROXY
from grafana.sweep import SWEEP

FOLDER = Path(__file__).parent / "dashboards"
_WIDTH = 24  # of Grafana's grid
_COLOURS = {"stock": "#5794F2", "candidate": "#FF9830", "mirror": "#B877D9"}


def dashboard(name: str, kinds: str, panels: tuple[Panel, ...]) -> dict[str, Any]:
    """A dashboard of Grafana; panels fill its rows from left to right. ``kinds``: of what runs."""
    instances = f'label_values(loadjudge_run_info{{kind=~"{kinds}"}}, instance)'
    drawn: list[dict[str, Any]] = []
    x = y = 0
    for number, panel in enumerate(panels, 1):
        if x + panel.width > _WIDTH:
            x, y = 0, y + drawn[-1]["gridPos"]["h"]
        drawn.append(_panel(number, panel, x, y))
        x += panel.width
    return {
        "uid": f"loadjudge-{name}",
        "title": f"loadjudge: {name.capitalize()}",
        "tags": ["loadjudge"],
        "schemaVersion": 39,
        "refresh": "5s",
        "time": {"from": "now-30m", "to": "now"},
        "graphTooltip": 1,
        "templating": {"list": [_variable("instance", instances)]},
        "panels": drawn,
    }


def _variable(name: str, query: str) -> dict[str, Any]:
    return {
        "name": name,
        "type": "query",
        "datasource": {"type": "prometheus", "uid": "prometheus"},
        "query": {"query": query, "refId": name},
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "current": {"text": "All", "value": "$__all"},
    }


def _panel(number: int, panel: Panel, x: int, y: int) -> dict[str, Any]:
    instant = panel.kind != "timeseries"
    targets = [
        {
            "refId": chr(ord("A") + i),
            "expr": query.replace("$of", 'instance=~"$instance"'),
            "legendFormat": legend,
            "instant": instant,
            "range": not instant,
            **({"format": "table"} if panel.kind == "table" else {}),
        }
        for i, (query, legend) in enumerate(panel.queries)
    ]
    defaults = {
        "unit": panel.unit,
        "min": panel.least,
        "max": panel.most,
        "decimals": panel.decimals,
        "custom": {"lineWidth": 2, "showPoints": "never"} if panel.kind == "timeseries" else None,
        "color": {"mode": "palette-classic-by-name"} if panel.kind == "timeseries" else None,
    }
    drawn = {
        "id": number,
        "type": panel.kind,
        "title": panel.title,
        "description": panel.text,
        "datasource": {"type": "prometheus", "uid": "prometheus"},
        "gridPos": {"x": x, "y": y, "w": panel.width, "h": panel.height},
        "targets": targets,
        "fieldConfig": {
            "defaults": {k: v for k, v in defaults.items() if v is not None},
            "overrides": _overrides(panel),
        },
        "options": panel.options,
    }
    if panel.kind == "table":
        drawn["transformations"] = _joined(panel)
    return drawn


def columns(panel: Panel) -> list[str]:
    """A table's columns, one a query: what its legend says after the row's name."""
    return [legend.partition(" ")[2] for _, legend in panel.queries]


def _joined(panel: Panel) -> list[dict[str, Any]]:
    """One row from the rows of all queries."""
    names = {f"Value #{chr(ord('A') + i)}": name for i, name in enumerate(columns(panel))}
    shown = dict.fromkeys((panel.rows, *names), True)
    if "verdict" in names.values():  # it is a label, and its value says only that it holds
        del shown["Value #A"]
        shown["verdict"] = True
    return [
        {"id": "joinByField", "options": {"byField": panel.rows, "mode": "outer"}},
        {"id": "organize", "options": {"includeByName": shown, "renameByName": names}},
    ]


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    """An arm's colour wherever it is drawn; thin lines for the ends of an interval."""
    if panel.kind != "timeseries":
        return []
    rules = [
        _matching(f"/^{arm}/", {"color": {"mode": "fixed", "fixedColor": colour}})
        for arm, colour in _COLOURS.items()
    ]
    rules.append(_matching("/p99$|wanted$/", {"custom.lineStyle": {"fill": "dash"}}))
    rules.append(_matching("/ (low|high)$/", {"custom.lineWidth": 1, "custom.fillOpacity": 0}))
    return rules


def _matching(pattern: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "matcher": {"id": "byRegexp", "options": pattern},
        "properties": [{"id": key, "value": value} for key, value in properties.items()],
    }


DASHBOARDS = {
    "judge": dashboard("judge", "judge", JUDGE),
    "sweep": dashboard("sweep", "sweep", SWEEP),
    "proxy": dashboard("proxy", "proxy", PROXY),
}


def text(name: str) -> str:
    return json.dumps(DASHBOARDS[name], indent=1) + "\n"


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for name in DASHBOARDS:
        (FOLDER / f"{name}.json").write_text(text(name))
