"""The exporter: values in, a page out."""

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from loadjudge.errors import JudgeError, Status
from loadjudge.metrics.exporter import Exporter
from loadjudge.metrics.process import ExporterProcess
from loadjudge.metrics.serve import serve
from loadjudge.metrics.values import Reply


def test_a_process_of_its_own_serves_what_it_was_sent() -> None:
    process = ExporterProcess(0, linger_s=0.1)
    try:
        process.take(Reply("stock", "team", ttft_s=0.2, itl=((0.01, 3),)))
        while True:
            text = httpx.get(f"http://127.0.0.1:{process.port}/metrics").text
            if "loadjudge_inter_token" in text:
                break
    finally:
        process.close()
    samples = {
        (s.name, s.labels.get("arm")): s.value
        for family in text_string_to_metric_families(text)
        for s in family.samples
    }
    assert samples["loadjudge_inter_token_latency_seconds_count", "stock"] == 3
    assert process.lost == 0


def test_a_port_in_use_is_one_sentence() -> None:
    server = serve(Exporter(), 0)
    with pytest.raises(JudgeError, match=f"can't be served at 127.0.0.1:{server.port}") as error:
        ExporterProcess(server.port)
    assert error.value.status == Status.SETUP
    server.close()
