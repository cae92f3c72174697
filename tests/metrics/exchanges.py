"""Exchanges and states of a proxy, with the fields that the exporter needs."""

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any


@dataclass(frozen=True)
class Exchange:
    """The fields of the proxy's own that the exporter needs."""

    arm: str
    mirrored: bool
    path: str
    status: int | None
    error: str | None = None
    stream: bool = True
    prompt_tokens: int | None = None
    output_tokens: int | None = None
    ttft_s: float | None = None
    ttfot_s: float | None = None
    itl_s: tuple[float, ...] = ()
    itl_tokens: tuple[float, ...] = ()
    tpot_s: float | None = None
    e2el_s: float | None = None


def snapshot(requests: int) -> Any:
    """The proxy's own state, as its fields are called; counts rise with the requests."""
    return SimpleNamespace(
        connections=3,
        in_flight={"stock": 1, "candidate": 0},
        bytes_down=1000 * requests,
        defects=0,
        unread={},
        mirror=SimpleNamespace(sent=requests, drops={"queue": requests // 4}, queued=1),
        recording=SimpleNamespace(
            sessions_written=requests // 2,
            turns=requests,
            bytes_written=500 * requests,
            drops={},
            trouble=None,
        ),
    )
