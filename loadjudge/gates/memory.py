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
    kind = "device" if candidate.kind == "device" else "resident"
    if slack_mib is None:
        sentence = (
            f"peak {kind} memory is {candidate.peak_mib:,.0f} MiB, stock's "
            f"{stock.peak_mib:,.0f}; this task sets no limit"
        )
        return Gate(verdict="n/a", sentence=sentence, figure=candidate.peak_mib), None
    allowed = stock.peak_mib + slack_mib
    ok = candidate.peak_mib <= allowed
    sentence = (
        f"peak {kind} memory is {candidate.peak_mib:,.0f} MiB; stock's "
        f"{stock.peak_mib:,.0f} and {slack_mib:,.0f} of slack allow {allowed:,.0f}"
    )
    gate = Gate(
        verdict="pass" if ok else "fail",
        sentence=sentence,
        figure=candidate.peak_mib,
        bound_high=allowed,
    )
    memory = Memory(
        ok=ok,
        peak_mib=candidate.peak_mib,
        allowed_mib=allowed,
        stock_peak_mib=stock.peak_mib,
        kind=candidate.kind,
    )
    return gate, memory
