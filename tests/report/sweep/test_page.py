"""The page and the terminal of a sweep."""

import io
from html.parser import HTMLParser

import pytest
from rich.console import Console

from loadjudge.record.values import RunRecord
from loadjudge.report.sweep.page import render_sweep_html
from loadjudge.report.sweep.terminal import render_sweep
from loadjudge.report.sweep.words import findings
from loadjudge.sweep.figures import sweep_record
from loadjudge.sweep.slo import Slo
from tests.sweep.sweeps import pass_at, sweep_run, two_arms

LATE = {"n": 100, "mean": 0.2, "p50": 0.2, "p99": 0.3, "max": 0.4}
SEARCH = {
    "slos": [Slo(metric="ttft", stat="p90", limit_ms=150).model_dump()],
    "most": 64,
    "passes": 1,
}


def searched() -> RunRecord:
    passes = [pass_at(n, "stock", 800 / n, sessions=120) for n in (8, 11, 12, 16)]
    return sweep_run(passes, search=SEARCH)


class Page(HTMLParser):
    """Tags in order of nesting, text, and figures."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.words: list[str] = []
        self.figures: list[str] = []
        self.outside: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "figure":
            self.figures.append(values.get("id") or "")
        self.outside += [
            v for k, v in attrs if k in ("src", "href") and v and not v.startswith("#")
        ]
        if tag not in ("meta", "br", "path", "use", "line", "rect", "circle"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self.open:
            assert self.open.pop() == tag, tag

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())


@pytest.fixture(scope="module")
def page() -> Page:
    return Page(render_sweep_html(sweep_record(two_arms(goodput={"ttft": 110.0}))))


def test_the_page_has_its_curves_and_is_whole(page: Page) -> None:
    assert page.open == []
    assert page.figures == ["curve", "ttft", "itl", "goodput", "speedup"]
    assert page.outside == []  # it needs nothing else
    assert "stock: the knee is at 8 lanes" in page.text


def test_names_of_engines_are_no_markup(page: Page) -> None:
    assert "old <engine>" in page.text


def test_points_stand_in_the_table(page: Page) -> None:
    record = sweep_record(two_arms())
    for point in record.points:
        for figures in point.arms.values():
            assert f"{figures.total.value:,.1f}" in page.text


def test_a_search_says_what_is_shown() -> None:
    record = sweep_record(searched())
    said = findings(record)[0]
    assert said == (
        "old <engine>: 11 lanes keep TTFT p90 ≤ 150 ms, 12 miss it; both are shown at 95 %."
    )
    text = Page(render_sweep_html(record)).text
    assert said in text
    assert "TTFT p90 ≤ 150 ms" in text


def test_a_border_that_is_not_shown_is_called_so() -> None:
    passes = [pass_at(n, "stock", 800 / n, sessions=30) for n in (8, 11, 12, 16)]
    said = findings(sweep_record(sweep_run(passes, search=SEARCH)))[0]
    assert "11 lanes keep TTFT p90 ≤ 150 ms, 12 miss it. Shown at 95 %: no number keeps" in said


@pytest.mark.parametrize("width", [80, 140])
def test_the_terminal_cuts_nothing(width: int) -> None:
    out = io.StringIO()
    passes = [pass_at(n, arm, 100, lag=LATE) for n in (1, 256) for arm in ("stock", "candidate")]  # type: ignore[arg-type]
    run = sweep_run(passes, goodput={"ttft": 110.0})
    render_sweep(sweep_record(run), Console(file=out, width=width))
    text = out.getvalue()
    assert "…" not in text
    assert "25,600.0" in text
    assert "invalid: the client was late" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= width


def test_a_sweep_that_died_says_so_first() -> None:
    run = sweep_run([pass_at(1, "stock", 100)], died={"sentence": "the engine died\nlog"})
    assert findings(sweep_record(run))[0] == "The sweep ended early: the engine died."
