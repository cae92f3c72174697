import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest

from loadjudge.record.evaluation import Evaluation, Gate, Ratio
from loadjudge.record.values import RunRecord
from loadjudge.report.page import render_html
from loadjudge.report.plots import Plot, plots_of

VOID = {"meta", "br", "hr", "img", "input", "link", "wbr"}
SELF_CLOSED = {"line", "path", "rect", "circle", "use", "g"}


class Page(HTMLParser):
    """Checks that tags balance; gathers text, ids, references and the sources of anything."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.ids: list[str] = []
        self.references: list[str] = []
        self.sources: list[str] = []
        self.words: list[str] = []
        self.feed(page)
        self.close()
        assert self.open == []
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._note(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in VOID | SELF_CLOSED
        self._note(tag, attrs)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] not in ("style", "script"):
            self.words.append(data)

    def _note(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for name, value in attrs:
            if name == "id":
                self.ids.append(value or "")
            if name == "href" and (value or "").startswith("#"):
                self.references.append((value or "")[1:])
            elif name in ("src", "href", "xlink:href", "srcset", "data", "action"):
                self.sources.append(f"{tag} {value}")
            self.references += re.findall(r"url\(#([^)]*)\)", value or "")


@pytest.fixture(scope="module")
def full(evaluation: Evaluation, run: RunRecord) -> str:
    return render_html(evaluation, run)


def test_a_full_page_is_well_formed_and_needs_nothing_else(full: str) -> None:
    page = Page(full)
    assert page.sources == []
    assert "@import" not in full
    assert not re.search(r"url\((?!#)", full)
    assert page.tags.count("script") == 1
    assert page.text


def test_ids_are_unique_and_every_reference_resolves(full: str) -> None:
    page = Page(full)
    assert len(page.ids) == len(set(page.ids))
    assert set(page.references) <= set(page.ids)


def test_a_full_page_shows_every_section(full: str) -> None:
    text = Page(full).text
    for words in (
        "1.819",
        "1.742 to 1.899",
        "1.001 (0.981 to 1.018)",
        "2.54×",
        "(2.39 to 2.69)",
        "Wait for the first token",
        "Time between tokens",
        "Output over time",
        "Turns in flight over time",
        "Tokens per arrival",
        "first token (TTFT)",
        "rank uniformity",
        "128,430",
        "timeout 2",
        "EAGLE-3, k = 3",
        "RedHatAI/Qwen3-8B-speculator.eagle3@08610ff",
        "--max-num-seqs 64",
        "VLLM_USE_V1",
        "S C C S S C",
        "NVIDIA H200",
        "5f1c5f1c",
        "The client ran on the machine that it measured.",
    ):
        assert words in text


def test_a_seed_page_shows_every_figure_that_its_arena_showed(seed_record: Evaluation) -> None:
    text = Page(render_html(seed_record, None)).text
    figures = {
        1.9459066023041207: (
            "1.946 2.54× 1.81× 1.60×|2.56, 2.54, 2.38|0.51, 1.81, 1.89|1.54, 1.61, 1.60|162.5 GiB"
            "|≤ 165.2 GiB|7.4e-07|≤ 0.002|+0.0030 ± 0.0877|within ±0.05 at 95 %|1.000"
            "|1 ± 0.05 at 95 %|3.49|3.60|3.53|-0.7085288667570291"
        ),
        1.3182919839229221: (
            "1.318|1.88×|1.35×|0.90×|1.63, 2.25, 1.88|1.60, 1.35, 1.18|0.90, 0.90, 1.35|162.6 GiB"
            "|0.012|≤ 0.02|+0.0131 ± 0.0500|−0.0044 ± 0.0115|within ±0.01 at 95 %|0.560|3.30|3.14"
            "|3.13|0.005880937608909257"
        ),
    }
    assert seed_record.specscore is not None
    for figure in re.split(r"\||(?<=×) |(?<=\d) (?=\d\.\d\d×)", figures[seed_record.specscore]):
        assert figure in text
    assert "Passed." in text
    assert "not recorded" in text
    assert "the A/A control" in text


def test_a_seed_page_leaves_out_sections_without_data(seed_record: Evaluation) -> None:
    page = Page(render_html(seed_record, None))
    assert {"speed", "gates", "speculation", "notes", "record"} <= set(page.ids)
    assert not {"latency", "ttft", "accounts", "conduct"} & set(page.ids)


def test_names_are_escaped(evaluation: Evaluation, run: RunRecord) -> None:
    evil = '<script>alert("x")</script>'
    engines = {"candidate": {"name": evil, "method": evil, "command": [evil], "env": {evil: evil}}}
    gates = {evil: Gate(verdict="fail", sentence=evil, figure=1.0)}
    record = evaluation.model_copy(
        update={
            "run": {"engines": engines, "task": {"name": evil}, evil: [evil]},
            "gates": gates,
            "reason": evil,
            "notes": [evil],
            "ratios": {evil: Ratio(passes=[1.1], ratio=1.1)},
            "unavailable": {evil: evil},
        }
    )
    page = render_html(record, None)
    assert Page(page).tags.count("script") == 1
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"verdict": "failed", "reason": "lengths differ"}, ("Failed.", "Lengths differ")),
        (
            {
                "verdict": "inconclusive",
                "gates": {
                    "lengths": Gate(
                        verdict="inconclusive", sentence="Too few.", missing_tokens=5000
                    )
                },
            },
            ("Inconclusive.", "about 5,000 tokens more to decide", "not final"),
        ),
        (
            {"verdict": "invalid", "invalid": ["the client was late in team"]},
            ("Invalid.", "The client was late in team", "can't be trusted"),
        ),
    ],
)
def test_a_page_that_did_not_pass_says_why(
    evaluation: Evaluation, changes: dict[str, object], words: tuple[str, ...]
) -> None:
    text = Page(render_html(evaluation.model_copy(update=changes), None)).text
    for word in words:
        assert word in text


def test_unknown_counters_are_not_zeros(full: str) -> None:
    text = Page(full).text
    assert "KV cache in use, mean unknown unknown" in text
    assert "requests waiting at most unknown unknown" in text
    assert "preemptions unknown unknown" in text


def test_a_run_that_died_says_so(evaluation: Evaluation, run: RunRecord) -> None:
    why = {"event": "died", "why": "the candidate ended with status 137"}
    died = replace(run, passes=(), complete=False, died=why)
    text = Page(render_html(evaluation, died)).text
    assert "The run ended early" in text
    assert "the candidate ended with status 137" in text


def test_a_page_is_a_function_of_its_record(evaluation: Evaluation, run: RunRecord) -> None:
    solo = replace(run, passes=run.of("solo", "stock"))
    assert render_html(evaluation, solo) == render_html(evaluation, solo)


def test_a_page_of_2000_turns_stays_under_its_bound(full: str, run: RunRecord) -> None:
    turns = sum(len(play.turns) for record in run.passes for play in record.measured)
    assert turns >= 2000
    assert len(full.encode()) < 1_500_000


@pytest.fixture(scope="module")
def plots(run: RunRecord) -> tuple[Plot, ...]:
    return plots_of(run)


def test_plots_carry_a_text_alternative_and_no_colour_of_their_own(
    plots: tuple[Plot, ...],
) -> None:
    assert [plot.key for plot in plots] == ["ttft", "itl", "throughput", "lanes", "acceptance"]
    for plot in plots:
        assert [panel.workload for panel in plot.panels] == ["solo", "team", "busy"]
        for panel in plot.panels:
            assert f'aria-label="{plot.title}, {panel.workload}.' in panel.svg
            assert "var(--candidate)" in panel.svg
            assert not re.search(r"#[0-9a-f]{6}\b", panel.svg)
            assert "<text" in panel.svg


def test_a_plot_keeps_the_digits_of_its_labels(plots: tuple[Plot, ...]) -> None:
    itl = plots[1].panels[0].svg
    assert re.search(r">\d\.\d\d ms</text>", itl)
