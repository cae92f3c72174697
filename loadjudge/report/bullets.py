"""The small drawing in a gate's row: its interval beside the zone in which it passes."""

from loadjudge.record.evaluation import Gate

WIDTH, HEIGHT, MIDDLE = 150.0, 24, 12


def bullet(gate: Gate) -> str | None:
    """Inline SVG, or None where a gate has no figure or no limit to draw it beside."""
    figure = gate.figure
    low, high = gate.bound_low, gate.bound_high
    if figure is None or (low is None and high is None):
        return None
    left, right = _range(gate, figure)
    if figure == low == high or (figure == 0 and 0 in (low, high)):
        return None  # exact or not: there is nothing to see

    def x(value: float) -> float:
        share = (value - left) / (right - left)
        return round(4 + (WIDTH - 8) * min(max(share, 0.0), 1.0), 1)

    zone = (x(left if low is None else low), x(right if high is None else high))
    parts = [
        f'<line class="axis" x1="0" y1="{MIDDLE}" x2="{WIDTH:g}" y2="{MIDDLE}"/>',
        f'<rect class="zone" x="{zone[0]}" y="3" width="{max(zone[1] - zone[0], 1.5):.1f}" '
        f'height="{HEIGHT - 6}"/>',
    ]
    parts += [
        f'<line class="bound" x1="{x(bound)}" y1="2" x2="{x(bound)}" y2="{HEIGHT - 2}"/>'
        for bound in (low, high)
        if bound is not None
    ]
    if gate.low is not None and gate.high is not None:
        parts.append(
            f'<line class="interval" x1="{x(gate.low)}" y1="{MIDDLE}" x2="{x(gate.high)}" '
            f'y2="{MIDDLE}"/>'
        )
    parts.append(f'<circle cx="{x(figure)}" cy="{MIDDLE}" r="4"/>')
    return (
        f'<svg class="bullet" viewBox="0 0 {WIDTH:g} {HEIGHT}" aria-hidden="true">'
        f"{''.join(parts)}</svg>"
    )


def _range(gate: Gate, figure: float) -> tuple[float, float]:
    """Room around the limits and all of the gate's numbers."""
    numbers = [figure, gate.low, gate.high, gate.bound_low, gate.bound_high]
    given = [n for n in numbers if n is not None]
    if gate.bound_low is None or gate.bound_high is None:
        given.append(0.0)  # one-sided limits are drawn from zero
    centre = (
        None
        if gate.bound_low is None or gate.bound_high is None
        else (gate.bound_low + gate.bound_high) / 2
    )
    if centre is None:
        low, high = min(given), max(given)
    else:
        reach = max(abs(n - centre) for n in given)
        low, high = centre - reach, centre + reach
    room = 0.15 * (high - low) or 1.0
    return (low if centre is None and low == 0 else low - room), high + room
