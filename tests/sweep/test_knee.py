"""The knee of curves that are known."""

import pytest

from loadjudge.sweep.knee import Power, knee


def saturating(lanes: list[int], capacity: float, half_width: float = 0.01) -> list[Power]:
    """All lanes run at 100 tokens/s until they share ``capacity``, sharply."""
    rates = [min(100.0, capacity / n) for n in lanes]
    return [Power(f"lanes-{n}", n * r, r, half_width) for n, r in zip(lanes, rates, strict=True)]


def test_the_knee_is_where_lanes_begin_to_share() -> None:
    found = knee(saturating([1, 2, 4, 8, 16, 32], capacity=800))
    assert found is not None
    assert (found.point, found.at_end, found.alike) == ("lanes-8", False, [])


def test_points_beyond_the_knee_do_not_move_it() -> None:
    lanes = [1, 2, 4, 8, 16]
    near, far = (knee(saturating(n, 800)) for n in (lanes, [*lanes, 64, 256, 1024]))
    assert near is not None
    assert far is not None
    assert near.point == far.point == "lanes-8"


def test_a_curve_that_still_rises_has_its_knee_at_the_end() -> None:
    found = knee(saturating([1, 2, 4, 8], capacity=1e6))
    assert found is not None
    assert (found.point, found.at_end) == ("lanes-8", True)


def test_points_that_noise_cannot_tell_from_it_are_named() -> None:
    points = saturating([4, 8, 16], 800, half_width=0.3)
    found = knee(points)
    assert found is not None
    assert found.point == "lanes-8"
    # Power at 4 and 16 lanes is half of the knee's: log 2 = 0.69 < 2 · √(0.3² + 0.3²).
    assert found.alike == ["lanes-4", "lanes-16"]


@pytest.mark.parametrize("count", [0, 1, 2])
def test_too_few_points_have_no_knee(count: int) -> None:
    assert knee(saturating([1, 2, 4][:count], 800)) is None
