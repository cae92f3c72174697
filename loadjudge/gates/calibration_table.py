"""The power table and the limits as text."""

from collections.abc import Iterable

from loadjudge.gates.calibration_evidence import Attacked, Evidence, Needed
from loadjudge.gates.power import FIGURES, SMALLEST


def power_table(evidence: Evidence) -> list[str]:
    """One line an attack: what its statistics need, and what the gates need to fail it."""
    head = (
        f"{'attack':19} {'likelihood: plain':>17} {'excess':>9} {'zero':>9} "
        f"{'first ch.: plain':>17} {'excess':>9} {'zero':>9} {'lean':>9} {'end':>9} {'copy':>9} "
        f"{'support':>9} {'ranks':>9} "
        f"{'gain':>5} {'any':>5}  fails"
    )
    lines = [head]
    for name, attack in evidence.attacks.items():
        n = attack.needs
        cells = [
            f"{said(n[f'{figure}, {kind}']):>{17 if kind == 'plain' else 9}}"
            for figure in ("likelihood", "first choice")
            for kind in ("plain", "excess", "zero")
        ]
        cells += [f"{said(n[f'{figure}, zero']):>9}" for figure in ("lean", "end", "copy")]
        cells += [f"{said(n['support']):>9}", f"{said(_least(n, _ranks(n))):>9}"]
        for others in ((), ("support", *_ranks(n))):
            better = gain(attack, others)
            cells.append(f"{'' if better is None else f'{better:.1f}':>5}")
        lines.append(f"{name:19} {' '.join(cells)}  {_fails(attack)}")
    return lines


def said(need: Needed) -> str:
    """``~`` marks an extrapolation, ``–`` what the whole pool doesn't show."""
    if need.tokens is None:
        return "–"
    return f"{'' if need.measured else '~'}{need.tokens:,}"


def gain(attack: Attacked, others: Iterable[str] = ()) -> float | None:
    """How many times the tokens the best plain statistic needs of the best excess one, or of one
    of ``others``; None where one of them doesn't see it."""
    plain = _least(attack.needs, (f"{figure}, plain" for figure in FIGURES)).tokens
    excess = _least(
        attack.needs,
        (*(f"{figure}, {kind}" for figure in FIGURES for kind in ("excess", "zero")), *others),
    ).tokens
    return None if plain is None or excess is None else plain / excess


def _ranks(needs: dict[str, Needed]) -> Iterable[str]:
    return (name for name in needs if name.startswith("ranks"))


def _least(needs: dict[str, Needed], names: Iterable[str]) -> Needed:
    some = [needs[name] for name in names]
    known = [need for need in some if need.tokens is not None]
    return min(known, key=lambda need: need.tokens or 0, default=some[0])


def _fails(attack: Attacked) -> str:
    if attack.void:
        return "nothing: what it changes the task does not ask for"
    o = attack.outcome
    by = ", ".join(o.caught_by[:3]) or "no gate"
    much = f"{o.tokens:,}" if attack.enough else f"not with {o.tokens:,}"
    return f"{much} ({o.failed}/{o.runs}: {by})"


def limits_table(evidence: Evidence) -> list[str]:
    """``[limits]`` as TOML."""
    values = evidence.limits.model_dump(exclude_none=True)
    return ["[limits]", *(f"{name} = {value:g}" for name, value in values.items())]


def power_words(evidence: Evidence) -> list[str]:
    """What the table's columns are."""
    return [
        "Tokens an arm. plain: gap of the plain means; excess: gap of the excesses, arm against",
        "arm; zero, lean, end and copy: the candidate's excess against its known zero; lean: of",
        "first choices, each weighted by how much it tells. gain: the best plain one's need over",
        "the best excess one's; any: with support and ranks among these. fails: the smallest",
        "budget tried at which 95 in 100 runs fail a gate under the task's limits, and the gates",
        "that do. ~ extrapolated beyond a quarter of the pool; – not seen in the whole pool.",
        f"{SMALLEST} is the smallest size tried.",
    ]
