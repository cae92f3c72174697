"""GitHub Actions: annotations, and the job summary in Markdown. Pure."""

import html
from collections.abc import Iterator, Sequence

from loadjudge.record.evaluation import Evaluation
from loadjudge.report import formats
from loadjudge.report.cases import Suite
from loadjudge.report.checks import checks_of
from loadjudge.report.notes import notes_of
from loadjudge.report.regression import Regression
from loadjudge.report.summary import rows_of
from loadjudge.report.sweep.words import doubts, findings, load, title
from loadjudge.report.verdict import big_score, headline_of
from loadjudge.sweep.record import SweepRecord

_MARKS = {"pass": "✅", "fail": "❌", "inconclusive": "❔", "n/a": "–"}


def annotations(suite: Suite) -> list[str]:
    """Workflow commands: an error for what failed, a warning for what is undecided."""
    said = []
    for case in suite.cases:
        kind = {"failed": "error", "error": "error", "inconclusive": "warning"}.get(case.outcome)
        if kind is not None:
            heading = _property(f"loadjudge: {case.name}")
            said.append(f"::{kind} title={heading}::{_data(case.message)}")
    return said


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def evaluation_summary(evaluation: Evaluation) -> str:
    """A run's verdict, speedups and gates."""
    headline = headline_of(evaluation)
    engines = (evaluation.run or {}).get("engines", {})
    names = [engines[arm]["name"] for arm in ("candidate", "stock") if arm in engines]
    big, remark = big_score(evaluation)
    lines = [
        f"## {headline.word}: {_text(' against '.join(names) or 'candidate against stock')}",
        "",
        f"**SpecScore {big}** ({_text(remark)}), 95 % interval "
        f"{formats.span(evaluation.specscore_interval, 3)}. {_text(headline.sentence)} "
        f"{_text(headline.speed)}",
        "",
        *(f"- {_text(reason)}" for reason in headline.reasons),
        "",
    ]
    rows = []
    for row in rows_of(evaluation):
        ttft = [row.latency(arm, "ttft") for arm in ("stock", "candidate")]
        rows.append(
            [
                row.workload,
                formats.count(row.lanes),
                formats.times(row.ratio.ratio),
                formats.span(row.pooled),
                formats.span(row.control_pooled),
                " → ".join(formats.millis(t.p50.value if t else None) for t in ttft),
                formats.decimal(row.acceptance),
            ]
        )
    lines += _table(
        ["workload", "lanes", "speedup", "95 %", "A/A 95 %", "TTFT p50", "tokens a step"], rows
    )
    gates = [
        [f"{_MARKS[c.verdict]} {c.verdict}", c.title, c.measured, c.limit, c.sentence]
        for c in checks_of(evaluation)
    ]
    lines += _table(["", "check", "measured", "limit", ""], gates)
    lines += _notes(notes_of(evaluation))
    return "\n".join(lines) + "\n"


def sweep_summary(record: SweepRecord) -> str:
    """A sweep's findings and points."""
    lines = [f"## Sweep: {_text(title(record))}", ""]
    lines += [f"- {_text(sentence)}" for sentence in findings(record)]
    lines.append("")
    rows = []
    for point in record.points:
        for arm, figures in point.arms.items():
            knee = record.knees.get(arm)
            ttft, itl = (figures.figures.latencies.get(m) for m in ("ttft", "itl"))
            rows.append(
                [
                    load(point),
                    arm,
                    f"{figures.total.value:,.1f}",
                    f"{figures.per_user.value:,.1f} ({formats.span(figures.per_user, 1)})",
                    formats.millis(ttft.p99.value if ttft else None),
                    formats.millis(itl.p50.value if itl else None),
                    "invalid"
                    if not figures.valid
                    else "knee"
                    if knee and knee.point == point.point
                    else "",
                ]
            )
    lines += _table(
        ["load", "arm", "tokens/s of all", "a user (95 %)", "TTFT p99", "ITL p50", ""], rows
    )
    lines += _notes([*doubts(record), *record.notes])
    return "\n".join(lines) + "\n"


def regression_summary(regression: Regression) -> str:
    """A comparison's verdict and figures."""
    lines = [f"## {regression.word}", "", _text(regression.sentence), ""]
    rows = [
        [
            figure.name,
            figure.verdict,
            formats.times(figure.ratio, "–"),
            "–"
            if figure.low is None or figure.high is None
            else f"{figure.low:.3f} to {figure.high:.3f}",
        ]
        for figure in regression.figures
    ]
    lines += _table(["", "verdict", "new over base", "interval"], rows)
    lines += [f"- {_text(reason)}" for reason in regression.reasons]
    return "\n".join(lines) + "\n"


def _table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    if rows:
        yield "| " + " | ".join(heads) + " |"
        yield "|" + " --- |" * len(heads)
        for row in rows:
            yield "| " + " | ".join(_cell(cell) for cell in row) + " |"
        yield ""


def _notes(notes: Sequence[str]) -> Iterator[str]:
    if notes:
        yield f"<details><summary>{formats.plural(len(notes), 'note')}</summary>"
        yield ""
        for note in notes:
            yield f"- {_text(note)}"
        yield ""
        yield "</details>"


def _cell(text: str) -> str:
    return _text(text).replace("|", "\\|")


def _text(text: str) -> str:
    """Names of engines are their makers' words: no markup of theirs, and one line."""
    plain = html.escape(" ".join(text.split()), quote=False)
    for mark in "\\`*_[]#":
        plain = plain.replace(mark, f"\\{mark}")
    return plain
