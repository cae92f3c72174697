import pytest

from loadjudge.record.evaluation import Interval
from loadjudge.report import formats


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.00421, "4.21 ms"),
        (0.0412, "41.2 ms"),
        (0.412, "412 ms"),
        (12.3456, "12,346 ms"),
        (0.0, "0.00 ms"),
        (None, "not recorded"),
    ],
)
def test_seconds_are_printed_as_ms_with_sensible_digits(seconds: float | None, text: str) -> None:
    assert formats.millis(seconds) == text


def test_ratios_intervals_and_counts_read_as_the_design_says() -> None:
    assert formats.times(2.5421) == "2.54×"
    assert formats.span(Interval(low=2.312, high=2.779)) == "2.31 to 2.78"
    assert formats.count(1234567) == "1,234,567"
    assert formats.gibibytes(166430.0) == "162.5 GiB"
    assert formats.signed(-0.0044098) == "−0.0044"
    assert formats.several([2.562, 2.542, 2.383]) == "2.56, 2.54, 2.38"


def test_an_unknown_figure_is_never_a_zero() -> None:
    assert formats.count(None) == "unknown"
    assert formats.share(None) == "unknown"
    assert formats.decimal(None) == "unknown"
    assert formats.count(0) == "0"


def test_words_agree_with_their_number() -> None:
    assert formats.plural(1, "turn") == "1 turn"
    assert formats.plural(1200, "reply", "replies") == "1,200 replies"
    assert formats.listed(["a"]) == "a"
    assert formats.listed(["a", "b", "c"]) == "a, b and c"
