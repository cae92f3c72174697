"""A sweep as one HTML file that needs nothing else."""

from loadjudge import __version__
from loadjudge.report.page import environment
from loadjudge.report.sweep.plots import sweep_plots
from loadjudge.report.sweep.words import doubts, findings, load, title
from loadjudge.sweep.record import SweepRecord


def render_sweep_html(record: SweepRecord) -> str:
    """The page of a sweep: findings, curves, the table of points, how it was run."""
    invalid = [a for p in record.points for a in p.arms.values() if not a.valid]
    outcomes = [r.outcome for r in record.search.values()]
    ruling = "none"
    if record.died or "invalid" in outcomes or "none keeps" in outcomes:
        ruling = "failed"
    elif not record.complete or invalid:
        ruling = "inconclusive"
    return (
        environment()
        .get_template("sweep.html.j2")
        .render(
            title=title(record),
            sweep=record,
            arms=record.arms,
            two=len(record.arms) > 1,
            ruling=ruling,
            load=load,
            findings=findings(record),
            doubts=doubts(record),
            plots=sweep_plots(record),
            record=record.to_bytes().decode(),
            version=__version__,
        )
    )
