"""JUnit XML, read back by an XML parser, and GitHub's workflow commands."""

import xml.etree.ElementTree as ET

import pytest

from loadjudge.errors import Status
from loadjudge.record.evaluation import Evaluation, Gate
from loadjudge.report.cases import Case, Suite, error_suite, evaluation_suite, sweep_suite
from loadjudge.report.github import annotations, evaluation_summary, sweep_summary
from loadjudge.report.junit import junit_xml
from loadjudge.sweep.figures import sweep_record
from tests.sweep.sweeps import pass_at, sweep_run, two_arms

GATES = {
    "memory": Gate(verdict="pass", sentence="within its slack", figure=900.0, bound_high=1000.0),
    "lengths": Gate(verdict="fail", sentence="replies are 20 % shorter", figure=0.8),
    "likelihood": Gate(verdict="inconclusive", sentence="too few tokens"),
    "ranks": Gate(verdict="n/a", sentence="no scorer", asked=True),
    "text_test": Gate(verdict="n/a", sentence="there are token ids"),
}


def judged(evaluation: Evaluation, **changes: object) -> Evaluation:
    return evaluation.model_copy(
        update={"gates": GATES, "invalid": [], "rule": "decide", **changes}
    )


def outcomes(xml: bytes) -> dict[str, str]:
    """What a reader of JUnit sees of each case: passed, or what its child says, with its type."""
    seen = {}
    for case in ET.fromstring(xml).iter("testcase"):
        told = [f"{c.tag} {c.get('type', '')}".strip() for c in case if c.tag != "system-out"]
        seen[case.get("name", "")] = " ".join(told) or "passed"
    return seen


def test_gates_are_cases_that_fail_as_the_verdict_does(evaluation: Evaluation) -> None:
    xml = junit_xml(evaluation_suite(judged(evaluation)))
    assert outcomes(xml) == {
        "the run can be trusted": "passed",
        "device memory": "passed",
        "likelihood of sampled replies": "failure inconclusive",
        "reply lengths": "failure gate",
        "rank uniformity": "failure inconclusive",
        "likeness of texts": "skipped",
    }
    suite = ET.fromstring(xml).find("testsuite")
    assert suite is not None
    counted = {k: suite.get(k) for k in ("tests", "failures", "errors", "skipped")}
    assert counted == {"tests": "6", "failures": "3", "errors": "0", "skipped": "1"}
    messages = [failure.get("message") for failure in suite.iter("failure")]
    assert messages == [
        "too few tokens",
        "replies are 20 % shorter (0.800; limit none set)",
        "no scorer",
    ]


def test_under_the_rule_reject_undecided_is_not_a_failure(evaluation: Evaluation) -> None:
    seen = outcomes(junit_xml(evaluation_suite(judged(evaluation, rule="reject"))))
    assert seen["likelihood of sampled replies"] == "passed"
    assert seen["rank uniformity"] == "skipped"
    assert seen["reply lengths"] == "failure gate"


def test_a_run_that_cannot_be_trusted_is_an_error(evaluation: Evaluation) -> None:
    invalid = judged(evaluation, invalid=["the client was late"], verdict="invalid")
    xml = junit_xml(evaluation_suite(invalid))
    assert outcomes(xml)["the run can be trusted"] == "error invalid"
    assert b"the client was late" in xml


def test_a_run_that_came_to_nothing_is_an_error_too() -> None:
    xml = junit_xml(
        error_suite("the engine died; its log ends:\n  \x1b[31mout of <memory>", Status.RUN)
    )
    (case,) = ET.fromstring(xml).iter("testcase")
    error = case.find("error")
    assert error is not None
    # The escape character has no place in XML; the rest is kept.
    assert error.text == "the engine died; its log ends:\n  \ufffd[31mout of <memory>"


def test_a_sweep_has_a_case_for_each_point() -> None:
    late = {"n": 100, "mean": 0.2, "p50": 0.2, "p99": 0.3, "max": 0.4}
    passes = [pass_at(1, "stock", 100), pass_at(2, "stock", 100, lag=late)]
    seen = outcomes(junit_xml(sweep_suite(sweep_record(sweep_run(passes)))))
    assert seen == {
        "the sweep is complete": "passed",
        "1 lane, old <engine>": "passed",
        "2 lanes, old <engine>": "error invalid",
    }


def test_annotations_are_one_line_each_and_escaped() -> None:
    cases = (
        Case("gate: a, b", "failed", "100 % of\nit"),
        Case("c", "inconclusive", "who knows"),
        Case("d", "error", "late"),
        Case("e", "passed", "fine"),
        Case("f", "skipped", "not here"),
    )
    assert annotations(Suite("s", cases, {})) == [
        "::error title=loadjudge%3A gate%3A a%2C b::100 %25 of%0Ait",
        "::warning title=loadjudge%3A c::who knows",
        "::error title=loadjudge%3A d::late",
    ]


def tables(markdown: str) -> list[list[str]]:
    """Rows of all tables, cells split at pipes that are not escaped."""
    rows = [line for line in markdown.splitlines() if line.startswith("|")]
    return [[c.strip() for c in r.replace("\\|", "\0").strip("|").split("|")] for r in rows]


def test_the_summary_holds_speedups_and_gates(evaluation: Evaluation) -> None:
    summary = evaluation_summary(judged(evaluation, verdict="failed"))
    assert summary.startswith("## Failed: ")
    rows = tables(summary)
    first = next(iter(evaluation.ratios))
    assert f"{evaluation.ratios[first].ratio:.2f}×" in next(r for r in rows if r[0] == first)
    assert next(r for r in rows if r[1] == "reply lengths")[0] == "❌ fail"
    widths = {len(r) for r in rows}
    assert widths == {7, 5}


def test_names_of_engines_break_no_table_and_are_no_markup() -> None:
    summary = sweep_summary(sweep_record(two_arms()))
    assert "<engine>" not in summary
    assert "&lt;engine&gt;" in summary
    assert {len(row) for row in tables(summary)} == {7}
    assert len(tables(summary)) == 2 + 10


@pytest.mark.parametrize("name", ["a.b/c", "plain"])
def test_class_names_are_not_split_at_dots(name: str) -> None:
    (case,) = ET.fromstring(junit_xml(Suite(name, (Case("x", "passed"),), {}))).iter("testcase")
    assert (case.get("classname") or "").count(".") == 1
