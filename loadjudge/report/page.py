"""One run as one HTML file that needs nothing else: no network, no fonts, no scripts to be read."""

import shlex
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any

from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup

from loadjudge import __version__
from loadjudge.record.evaluation import Evaluation
from loadjudge.record.values import ARMS, RunRecord
from loadjudge.report import formats, sections
from loadjudge.report.bullets import bullet
from loadjudge.report.checks import TITLES, checks_of
from loadjudge.report.gateplot import gate_plot
from loadjudge.report.identity import Identity, identity_of, metadata_of
from loadjudge.report.plots import plots_of
from loadjudge.report.speedups import speedup_plot
from loadjudge.report.summary import rows_of
from loadjudge.report.tokens import excess_plot, oddest, rank_plot
from loadjudge.report.verdict import big_score, headline_of

TEMPLATES = Path(__file__).with_name("templates")
FILTERS = (
    formats.times,
    formats.score,
    formats.span,
    formats.several,
    formats.millis,
    formats.millis_span,
    formats.count,
    formats.decimal,
    formats.signed,
    formats.share,
    formats.plural,
    formats.listed,
)
SHOWN_ELSEWHERE = {"engines", "event", "schema"}


def render_html(evaluation: Evaluation, run: RunRecord | None) -> str:
    """The page of a record. Without the run's log, what only the log knows is left out."""
    metadata = metadata_of(evaluation, run)
    identity = identity_of(metadata)
    rows = rows_of(evaluation)
    checks = checks_of(evaluation)
    return (
        environment()
        .get_template("report.html.j2")
        .render(
            arms=ARMS,
            title=_title(identity),
            identity=identity,
            evaluation=evaluation,
            run=run,
            headline=headline_of(evaluation),
            big=big_score(evaluation),
            rows=rows,
            speedups=Markup(speedup_plot(rows)) if rows else None,
            plots=plots_of(run) if run else (),
            checks=checks,
            gateplot=_drawn(gate_plot(checks, evaluation)),
            rankplot=_drawn(rank_plot(evaluation.ranks)) if evaluation.ranks else None,
            excessplot=_drawn(excess_plot(run, evaluation)) if run else None,
            oddest=oddest(run) if run else (),
            latencies={row.workload: sections.latency_rows(row) for row in rows if row.arms},
            accounts={row.workload: sections.accounts(row, evaluation) for row in rows if row.arms},
            passes=sections.pass_rows(run) if run else (),
            notes=_notes(evaluation, run),
            unavailable={**(run.unavailable if run else {}), **(evaluation.unavailable or {})},
            missing=sections.not_recorded(evaluation, run, metadata),
            conduct=_conduct(metadata, run),
            record=evaluation.to_bytes().decode(),
            version=__version__,
        )
    )


@cache
def environment() -> Environment:
    """The templates' environment, with the formats as filters."""
    environment = Environment(
        loader=FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {function.__name__: function for function in FILTERS}
    environment.filters["bullet"] = lambda gate: Markup(bullet(gate) or "")
    environment.filters["plot"] = Markup
    environment.filters["words"] = lambda key: TITLES.get(key, str(key).replace("_", " "))
    environment.filters["command"] = _command
    environment.tests["table"] = lambda value: isinstance(value, Mapping)
    environment.tests["rows"] = lambda value: isinstance(value, list | tuple)
    return environment


def _drawn(svg: str | None) -> Markup | None:
    return None if svg is None else Markup(svg)


def _title(identity: Identity) -> str:
    candidate = identity.engines["candidate"]
    return candidate.name or candidate.method or "A candidate without a name"


def _conduct(metadata: Mapping[str, Any], run: RunRecord | None) -> dict[str, Any]:
    """How the run was made: all of its metadata that no other section shows."""
    shown = {k: v for k, v in metadata.items() if k not in SHOWN_ELSEWHERE}
    if run and run.lanes:
        shown["lanes from the KV cache"] = run.lanes
    if run and run.passes:
        shown["order of passes (S stock, C candidate)"] = {
            workload: " ".join(
                p.arm[0].upper()
                for p in sorted(run.passes, key=lambda p: p.slot)
                if p.workload == workload
            )
            for workload in run.workloads
        }
    return shown


def _notes(evaluation: Evaluation, run: RunRecord | None) -> tuple[str, ...]:
    notes = [*(evaluation.notes or ()), *(run.notes if run else ())]
    return tuple(dict.fromkeys(notes))


def _command(words: Sequence[Any] | str) -> str:
    """A command line as a shell would take it, one option a line."""
    if isinstance(words, str):
        return words
    text = ""
    for word in map(str, words):
        text += (" \\\n  " if word.startswith("--") else " " if text else "") + _quoted(word)
    return text


def _quoted(word: str) -> str:
    """``{model}`` and its like are filled in by the judge; they need no quotes here."""
    plain = word.replace("{", "").replace("}", "")
    return word if word.count("{") == 1 and shlex.quote(plain) == plain else shlex.quote(word)
