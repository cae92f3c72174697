"""The Retry-After header."""

import pytest

from loadjudge.client.retryafter import retry_after_s

DATE = "Wed, 21 Oct 2015 07:28:00 GMT"
UNIX_S = 1_445_412_480.0


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        (None, None),
        ("", None),
        ("soon", None),
        ("-3", None),
        ("0", 0.0),
        ("7", 7.0),
        (" 7 ", 7.0),
        ("0.5", 0.5),
        (DATE, 20.0),
    ],
)
def test_values(value: str | None, seconds: float | None) -> None:
    assert retry_after_s(value, UNIX_S - 20) == seconds


def test_a_date_that_has_passed_is_now() -> None:
    assert retry_after_s(DATE, UNIX_S + 5) == 0.0
