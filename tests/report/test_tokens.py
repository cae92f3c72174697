"""The gates' drawings: one axis for all, ranks, growing evidence, and the oddest replies."""

from dataclasses import replace

import numpy as np
import pytest

from loadjudge.gates import simulate
from loadjudge.gates.ranks import check
from loadjudge.record.evaluation import Evaluation, Gate
from loadjudge.record.values import ARMS, RunRecord, ScoredReply
from loadjudge.report.checks import checks_of
from loadjudge.report.gateplot import gate_plot, scaled
from loadjudge.report.page import render_html
from loadjudge.report.tokens import excess_plot, growing_excess, oddest, rank_plot, standardised


def scored_run(run: RunRecord, attack: simulate.Attack | None = None) -> RunRecord:
    """Scored replies of the run's own first turns in each pass."""
    rng = np.random.default_rng(3)
    scored: list[ScoredReply] = []
    for arm in ARMS:
        turns = [
            (one, play, play.turns[0])
            for one in run.passes
            if one.arm == arm
            for play in one.measured
        ][:200]
        drawn = simulate.replies(
            rng,
            arm,
            sessions=len(turns),
            turns=1,
            attack=attack if arm == "candidate" else None,
        )
        scored += [
            replace(
                reply,
                workload=one.workload,
                number=one.number,
                session=play.session,
                play=play.play,
                turn=turn.index,
            )
            for reply, (one, play, turn) in zip(drawn, turns, strict=True)
        ]
    return replace(run, scored=tuple(scored))


@pytest.fixture(scope="module")
def scored(run: RunRecord) -> RunRecord:
    return scored_run(run)


def test_the_limit_lies_at_one(evaluation: Evaluation) -> None:
    rows = {c.name: scaled(c, evaluation) for c in checks_of(evaluation)}
    assert rows["agreement"] is None
    assert rows["support"] is None
    figures = {name: row.figure for name, row in rows.items() if row is not None}
    assert figures["likelihood"] == pytest.approx(0.0021 / 0.05)
    assert figures["lengths"] == pytest.approx(0.01 / 0.05)
    assert figures["fidelity"] == pytest.approx(0.0118 / 0.02)
    assert figures["memory"] == pytest.approx((132_430 - 131_023) / 4096)
    assert figures["ranks"] == pytest.approx(np.log(0.43) / np.log(0.001))
    assert figures["integrity"] == 0
    likelihood = rows["likelihood"]
    assert likelihood is not None
    assert likelihood.low == pytest.approx(-0.0112 / 0.05)


def test_what_lies_far_out_is_still_drawn(evaluation: Evaluation) -> None:
    far = Gate(
        verdict="fail",
        sentence="x",
        **{"figure": 9.0, "low": 8.0, "high": float("inf"), "bound_low": -1.0, "bound_high": 1.0},
    )
    gates = {
        "likelihood": far,
        "integrity": Gate(verdict="fail", sentence="", figure=2, bound_high=0),
    }
    record = evaluation.model_copy(update={"gates": gates})
    svg = gate_plot(checks_of(record), record)
    assert svg is not None
    assert "nan" not in svg
    none = evaluation.model_copy(update={"gates": {"x": Gate(verdict="n/a", sentence="")}})
    assert gate_plot(checks_of(none), none) is None


def test_evidence_grows_to_the_mean_of_all(scored: RunRecord) -> None:
    replies = tuple(r for r in scored.scored if r.arm == "stock")
    tokens, mean, se = growing_excess(replies)
    d = np.concatenate([r.terms.logp - r.terms.expected for r in replies])
    assert tokens[-1] == len(d)
    assert mean[-1] == pytest.approx(d.mean())
    assert se[-1] < se[0]


def test_the_oddest_replies_come_first_with_their_text(run: RunRecord) -> None:
    odd = oddest(scored_run(run, simulate.tempered(1.5)))
    assert [r.arm for r in odd] == ["candidate"] * 6 + ["stock"]
    z = [r.z for r in odd[:6]]
    assert z == sorted(z)
    assert z[0] < odd[-1].z
    assert all(r.text == "…" and ", turn 1, " in r.where for r in odd)


def test_a_reply_without_variance_has_no_z(scored: RunRecord) -> None:
    one = scored.scored[0]
    terms = replace(one.terms, variance=np.zeros_like(one.terms.variance))
    assert standardised(replace(one, terms=terms)) is None


def test_drawings_follow_the_pages_colours(scored: RunRecord, evaluation: Evaluation) -> None:
    _, ranks = check(scored, 0.001, 1)
    assert ranks is not None
    for svg in (rank_plot(ranks), excess_plot(scored, evaluation) or ""):
        assert "var(--candidate)" in svg
        assert "var(--stock)" in svg
        assert "aria-label" in svg


def test_a_page_shows_the_evidence_and_without_scores_leaves_it_out(
    scored: RunRecord, run: RunRecord, evaluation: Evaluation
) -> None:
    _, ranks = check(scored, 0.001, 1)
    page = render_html(evaluation.model_copy(update={"ranks": ranks}), scored)
    for said in ("Every gate in units", "as evidence grows", "Ranks of the tokens", "least like"):
        assert said in page
    bare = render_html(evaluation, run)
    assert "as evidence grows" not in bare
    assert "least like" not in bare
