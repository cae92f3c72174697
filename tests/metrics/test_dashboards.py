"""Every query of every panel, on a real Prometheus that scraped a real run."""

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from grafana.dashboards import DASHBOARDS, FOLDER, text
from tests.metrics.conftest import GRAFANA, Scraped

QUERIES = [
    pytest.param(name, target["expr"], id=f"{name}-{panel['title']}-{target['refId']}")
    for name, dashboard in DASHBOARDS.items()
    for panel in dashboard["panels"]
    for target in panel["targets"]
]


def numbers(series: list[dict[str, Any]]) -> list[float]:
    values = [float(value) for one in series for _, value in one["values"]]
    return [value for value in values if value == value]


@pytest.mark.parametrize("name", DASHBOARDS)
def test_the_files_are_what_the_code_makes(name: str) -> None:
    assert (FOLDER / f"{name}.json").read_text() == text(name), "run python -m grafana.dashboards"


@pytest.mark.parametrize(("name", "query"), QUERIES)
def test_a_query_returns_data(name: str, query: str, scraped: Scraped) -> None:
    series = scraped.prometheus.range(scraped.filled(query, name), scraped.start, scraped.end)
    assert numbers(series), query


@pytest.mark.parametrize("name", DASHBOARDS)
def test_a_variable_finds_its_values(name: str, scraped: Scraped) -> None:
    for variable in DASHBOARDS[name]["templating"]["list"]:
        found = re.fullmatch(r"label_values\((.*), (\w+)\)", variable["query"]["query"])
        assert found
        values = scraped.prometheus.get(
            f"label/{found[2]}/values",
            **{"match[]": scraped.filled(found[1], name), "start": scraped.start},
        )
        assert values
        if variable["name"] == "instance":
            assert set(values) == set(scraped.instances[name].split("|"))


def test_tokens_per_step_at_the_end_of_a_run_are_the_records(scraped: Scraped) -> None:
    series = scraped.prometheus.range(
        "loadjudge_tokens_per_verify_step", scraped.start, scraped.end
    )
    last = {
        (one["metric"]["arm"], one["metric"]["workload"]): float(one["values"][-1][1])
        for one in series
        if one["metric"]["instance"] == scraped.instances["judge"]
    }
    record = {
        (arm, workload): figures["acceptance"]
        for workload, its in scraped.evaluation["workloads"].items()
        for arm, figures in its["arms"].items()
        if "acceptance" in figures
    }
    assert record
    assert last == record


def test_tokens_per_step_are_there_while_the_first_pass_plays(scraped: Scraped) -> None:
    # S C C S: one pass is done while the candidate plays its first.
    series = scraped.prometheus.range(
        'loadjudge_tokens_per_verify_step{arm="candidate"} '
        "and on (instance) (loadjudge_passes_done == 1)",
        scraped.start,
        scraped.end,
    )
    assert all(value > 1 for value in numbers(series))
    assert numbers(series)


def test_speedup_interval_and_gates_at_the_end_are_the_records(scraped: Scraped) -> None:
    def last(query: str) -> float:
        (one,) = scraped.prometheus.range(query, scraped.start, scraped.end)
        return float(one["values"][-1][1])

    record = scraped.evaluation["pooled"]["team"]
    for end, key in (("", "ratio"), ("_lower", "low"), ("_upper", "high")):
        assert last(f'loadjudge_speedup{end}_ratio{{workload="team"}}') == record[key]
    for gate, its in scraped.evaluation["gates"].items():
        query = f'loadjudge_gate_verdict{{gate="{gate}",verdict="{its["verdict"]}"}}'
        assert last(query) == 1, gate
    verdict = scraped.evaluation["verdict"]
    assert last(f'loadjudge_run_verdict{{verdict="{verdict}"}}') == 1
    judge = scraped.instances["judge"]
    assert last(f'loadjudge_run_state{{state="done",instance="{judge}"}}') == 1


def test_replies_and_tokens_are_the_records(scraped: Scraped) -> None:
    for arm, figures in scraped.evaluation["workloads"]["team"]["arms"].items():
        for metric, key in (
            ("loadjudge_replies_total", "turns"),
            ("loadjudge_output_tokens_total", "output_tokens"),
            ("loadjudge_prompt_tokens_total", "prompt_tokens"),
            ("loadjudge_time_to_first_token_seconds_count", "turns"),
        ):
            query = f'{metric}{{arm="{arm}",workload="team"}}'
            (one,) = scraped.prometheus.range(query, scraped.start, scraped.end)
            assert float(one["values"][-1][1]) == figures[key], query


@pytest.mark.parametrize(
    "command",
    [
        ("check", "rules", str(GRAFANA / "rules.yml")),
        ("check", "config", str(GRAFANA / "prometheus.yml")),
        ("test", "rules", str(Path(__file__).with_name("rules_test.yml"))),
    ],
    ids=lambda command: " ".join(command[:2]),
)
def test_promtool(command: tuple[str, ...], tools: Path) -> None:
    done = subprocess.run(["promtool", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


def test_rules_are_evaluated(scraped: Scraped) -> None:
    (group,) = scraped.prometheus.get("rules")["groups"]
    assert {rule["health"] for rule in group["rules"]} == {"ok"}


def test_every_metric_that_is_asked_for_by_an_alert_is_exported(scraped: Scraped) -> None:
    exported = set(scraped.prometheus.get("label/__name__/values"))
    asked = set(re.findall(r"loadjudge_\w+", (GRAFANA / "rules.yml").read_text()))
    assert asked <= exported


def test_panels_lie_beside_each_other() -> None:
    for dashboard in DASHBOARDS.values():
        cells = [
            (x, y)
            for place in (panel["gridPos"] for panel in dashboard["panels"])
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        ]
        assert len(cells) == len(set(cells))
        assert all(x < 24 for x, _ in cells)
        json.dumps(dashboard)
