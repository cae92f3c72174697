"""Points and their order."""

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.sweep.points import parse_concurrency, parse_rates, play_order


def test_lanes_and_busy() -> None:
    points = parse_concurrency("1, 4,busy")
    assert [(p.name, p.lanes, p.rate) for p in points] == [
        ("lanes-1", 1, None),
        ("lanes-4", 4, None),
        ("busy", "kv", None),
    ]
    assert [p.rate for p in parse_rates("0.5,2")] == [0.5, 2.0]


@pytest.mark.parametrize(
    ("parse", "text"),
    [
        (parse_concurrency, "1,0"),
        (parse_concurrency, "1,,2"),
        (parse_concurrency, "many"),
        (parse_concurrency, "4,4"),
        (parse_rates, "0"),
        (parse_rates, "inf"),
        (parse_rates, "nan"),
        (parse_rates, "1,1.0"),
        (parse_rates, "fast"),
    ],
)
def test_what_is_no_load_is_told(parse: object, text: str) -> None:
    with pytest.raises(JudgeError, match="--") as told:
        parse(text)  # type: ignore[operator]
    assert told.value.status == Status.USAGE


def test_alternate_goes_there_and_back_with_both_arms_at_each_point() -> None:
    points = parse_concurrency("1,2,4")
    plan = play_order(points, 2, ("stock", "candidate"), "alternate", 0)
    assert [(p.workload, p.arm[0]) for p in plan] == [
        *[("lanes-1", "s"), ("lanes-1", "c"), ("lanes-2", "s"), ("lanes-2", "c")],
        *[("lanes-4", "s"), ("lanes-4", "c"), ("lanes-4", "c"), ("lanes-4", "s")],
        *[("lanes-2", "c"), ("lanes-2", "s"), ("lanes-1", "c"), ("lanes-1", "s")],
    ]
    # A steady drift meets all points alike: places add up to the same at each.
    places = {p.workload: 0 for p in plan}
    for place, one in enumerate(plan):
        places[one.workload] += place
    assert len(set(places.values())) == 1


@pytest.mark.parametrize("how", ["alternate", "given", "shuffle"])
def test_every_order_plays_every_pass_once(how: str) -> None:
    points = parse_concurrency("1,2,4,8")
    plan = play_order(points, 3, ("stock",), how, 7)  # type: ignore[arg-type]
    assert len({(p.workload, p.slot) for p in plan}) == len(plan) == 12
    assert {(p.workload, p.number) for p in plan} == {
        (point.name, number) for point in points for number in range(3)
    }


def test_shuffle_is_seeded() -> None:
    points = parse_concurrency("1,2,4,8,16,32")
    orders = [play_order(points, 2, ("stock",), "shuffle", seed) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]
