"""The admin page: one HTML file that needs nothing else, and reads the JSON beside it."""

from functools import cache
from pathlib import Path

_PAGE = Path(__file__).with_name("admin.html")


@cache
def page() -> bytes:
    """The page."""
    return _PAGE.read_bytes()
