"""What the proxy tells, as values for the exporter."""

import math

import numpy as np

from loadjudge.metrics.process import ExporterProcess
from loadjudge.metrics.proxied import ProxyFeed
from loadjudge.metrics.values import LiveRatio, ProxyRequest, ProxyState, Reply, Run, Value
from tests.metrics.exchanges import Exchange, snapshot

CHAT = "/v1/chat/completions"


class Heard:
    def __init__(self) -> None:
        self.values: list[Value] = []

    def take(self, value: Value) -> None:
        self.values.append(value)


def feed() -> tuple[ProxyFeed, list[Value]]:
    heard = Heard()
    return ProxyFeed(heard, (("stock", "http://one"),)), heard.values


def test_an_exchange_is_a_request_and_a_reply() -> None:
    tell, heard = feed()
    tell(
        Exchange(
            "candidate", False, CHAT, 200, None, True, 100, 5, 0.1, 0.2,
            (0.01, 0.02), (2.0, 2.0), 0.015, 0.5,
        )
    )  # fmt: skip
    assert heard == [
        Run("live", "proxy", (("stock", "http://one"),)),
        ProxyRequest("candidate", CHAT, 200, 0.5, True),
        Reply(
            "candidate", "live", 0.1, 0.2, 0.015, 0.5, ((0.01, 2), (0.02, 2)), 100, 5, None
        ),
    ]  # fmt: skip


def test_what_was_mirrored_is_an_arm_of_its_own() -> None:
    tell, heard = feed()
    tell(Exchange("candidate", True, CHAT, 200))
    assert [value.arm for value in heard if not isinstance(value, Run)] == ["mirror", "mirror"]


def test_what_failed_is_an_error_and_what_is_no_reply_only_a_request() -> None:
    tell, heard = feed()
    tell(Exchange("stock", False, CHAT, 200, "cut", ttft_s=0.1))
    tell(Exchange("stock", False, "/v1/models", 503, "http"))
    assert heard[1:] == [
        ProxyRequest("stock", CHAT, 200, None, True),
        Reply("stock", "live", error="cut"),
        ProxyRequest("stock", "/v1/models", 503, None, True),
    ]


def test_its_state_is_told_with_the_ratios_that_are_known() -> None:
    tell, heard = feed()
    known = {"figure": "ttft_s", "of": "mean", "ratio": 0.9, "low": 0.8, "high": None}
    tell.state(snapshot(8), [known, {**known, "ratio": math.inf}])
    assert heard[1:] == [
        ProxyState(
            3, (("stock", 1), ("candidate", 0)), 8000, 0, 0, 8, 2, 1, 4, 8, 4000, 0, False
        ),
        LiveRatio("ttft_s", "mean", 0.9, 0.8, None),
    ]  # fmt: skip


def test_numbers_of_numpy_go_to_a_process_like_others() -> None:
    process = ExporterProcess(0, linger_s=0.1)
    process.take(LiveRatio("ttft_s", "mean", np.float64(0.9), np.float64(0.8)))
    process.close()
    assert process.lost == 0
