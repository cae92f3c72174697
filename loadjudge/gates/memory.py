"""Device memory: the candidate's peak against the stock's. Design: statistics, section 2."""

from loadjudge.gates.verdict import not_available
from loadjudge.record.evaluation import Gate, Memory
from loadjudge.record.values import RunRecord


def check(run: RunRecord, slack_mib: float | None) -> tuple[Gate, Memory | None]:
    """The candidate's peak must be within the stock's plus the slack, in MiB."""
    peaks = {m.arm: m for m in run.memory}
    if "stock" not in peaks or "candidate" not in peaks:
        missing = "stock" if "stock" not in peaks else "candidate"
        return not_available(f"the {missing} engine's processes are not this run's to see"), None
    stock, candidate = peaks["stock"], peaks["candidate"]
    if stock.kind != candidate.kind:
        kinds = f"stock's is of kind {stock.kind}, the candidate's {candidate.kind}"
        return not_available(f"the arms' peaks can't be compared: {kinds}"), None
    figures = Memory(
        ok=True,
        peak_mib=candidate.peak_mib,
        allowed_mib=stock.peak_mib + (slack_mib or 0.0),
        stock_peak_mib=stock.peak_mib,
        kind=candidate.kind,
    )
    return judge(figures, slack_mib)


def judge(figures: Memory, slack_mib: float | None) -> tuple[Gate, Memory | None]:
    """The gate from its figures; ``stock_peak_mib`` must be known. The figures as judged."""
    if figures.stock_peak_mib is None:
        return not_available("the record does not tell stock's peak"), None
    kind = {"device": "device ", "rss": "resident ", None: ""}[figures.kind]
    peak, stock = figures.peak_mib, figures.stock_peak_mib
    if slack_mib is None:
        sentence = (
            f"peak {kind}memory is {peak:,.0f} MiB, stock's {stock:,.0f}; this task sets no limit"
        )
        return Gate(verdict="n/a", sentence=sentence, figure=peak), None
    allowed = stock + slack_mib
    ok = peak <= allowed
    sentence = (
        f"peak {kind}memory is {peak:,.0f} MiB; stock's {stock:,.0f} and {slack_mib:,.0f} of slack "
        f"allow {allowed:,.0f}"
    )
    gate = Gate(
        verdict="pass" if ok else "fail", sentence=sentence, figure=peak, bound_high=allowed
    )
    return gate, figures.model_copy(update={"ok": ok, "allowed_mib": allowed})
