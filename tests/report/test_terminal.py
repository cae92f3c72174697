import io
import re
from pathlib import Path

import pytest
from rich.console import Console

from loadjudge.record.evaluation import Evaluation, Gate
from loadjudge.report.terminal import render_terminal


def printed(evaluation: Evaluation, width: int, terminal: bool = False) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, force_terminal=terminal, color_system=None)
    render_terminal(evaluation, console, Path("runs/x"))
    return out.getvalue()


FIGURES = (
    *("1.819", "1.742 to 1.899", "1.001", "0.981 to 1.018", "2.54×", "2.59, 2.54, 2.41"),
    *("2.51×", "2.39 to 2.69", "3.21", "41.0 ms", "160 ms", "14.0 ms", "6.30 ms", "3,797.3"),
    *("+0.0021 ± 0.0133", "within ±0.05 at 95 %", "(0.970 to 1.040)", "129.3 GiB", "runs/x"),
)


@pytest.mark.parametrize("width", [72, 80, 160])
def test_no_number_is_broken(evaluation: Evaluation, width: int) -> None:
    text = printed(evaluation, width)
    assert all(len(line.rstrip()) <= width for line in text.splitlines())
    for figure in FIGURES:
        assert figure in text


def test_a_seed_record_is_printed_in_full(seed_record: Evaluation) -> None:
    text = printed(seed_record, 80)
    assert text.startswith("Passed  SpecScore 1.")
    assert "not recorded" in text
    assert "162." in text
    assert "none set" in text


def test_an_unknown_counter_is_unknown(evaluation: Evaluation) -> None:
    line = next(line for line in printed(evaluation, 80).splitlines() if "per verify step" in line)
    assert line.split()[-3:] == ["3.21", "3.18", "unknown"]


def test_output_that_is_no_terminal_is_plain(evaluation: Evaluation) -> None:
    text = printed(evaluation, 80)
    assert "\x1b" not in text
    assert not re.search("[\u2500-\u257f]", text)
    assert re.search("[\u2500-\u257f]", printed(evaluation, 80, terminal=True))


@pytest.mark.parametrize("verdict", ["failed", "inconclusive"])
def test_reasons_are_printed(evaluation: Evaluation, verdict: str) -> None:
    word = {"failed": "fail", "inconclusive": "inconclusive"}[verdict]
    gate = Gate.model_validate(
        {"verdict": word, "sentence": "Replies are cut short.", "figure": 0.9}
    )
    text = printed(
        evaluation.model_copy(update={"verdict": verdict, "gates": {"lengths": gate}}), 80
    )
    assert text.startswith(verdict.capitalize())
    assert "- Replies are cut short." in text


def test_an_invalid_run_prints_no_score(evaluation: Evaluation) -> None:
    text = printed(
        evaluation.model_copy(update={"verdict": "invalid", "invalid": ["a session was cut"]}), 80
    )
    assert text.startswith("Invalid  SpecScore none")
    assert "- A session was cut" in text


def test_notes_tell_counts_repairs_and_errors(evaluation: Evaluation) -> None:
    text = " ".join(printed(evaluation, 80).split())
    assert "tokens of stock are counted by tokenizer" in text
    assert "2 turns failed (timeout 2)" in text
    assert "1 repaired call, 1 request sent again" in text
    assert "tokens outside support could not be had" in text


def test_markup_in_names_is_text(evaluation: Evaluation) -> None:
    text = printed(evaluation.model_copy(update={"notes": ["[red]not markup[/red]"]}), 80)
    assert "[red]not markup[/red]" in text
