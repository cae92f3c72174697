"""The table of a sweep: CSV and Parquet, read back by others' readers."""

import csv
import io
from pathlib import Path

import pytest

from loadjudge.report.sweep.table import rows_of, to_csv, write_parquet
from loadjudge.sweep.figures import sweep_record
from tests.sweep.sweeps import pass_at, sweep_run, two_arms


def test_csv_holds_what_the_record_holds() -> None:
    record = sweep_record(two_arms(goodput={"ttft": 110.0}))
    read = list(csv.DictReader(io.StringIO(to_csv(record).decode())))
    assert len(read) == 10
    row = next(r for r in read if r["lanes"] == "8" and r["arm"] == "candidate")
    figures = record.points[3].arms["candidate"]
    assert row["engine"] == "new | engine"
    assert float(row["output_tokens_per_s"]) == figures.total.value
    assert float(row["output_tokens_per_s_per_user_low"]) == figures.per_user.low
    assert float(row["ttft_p99_high_ms"]) == 1e3 * figures.figures.latencies["ttft"].p99.high
    assert float(row["goodput_requests_per_s"]) == figures.goodput.value  # type: ignore[union-attr]
    assert float(row["speedup"]) == record.points[3].speedup.ratio  # type: ignore[union-attr]
    assert (row["valid"], row["knee"]) == ("true", "true")


def test_what_is_not_known_is_empty_not_zero() -> None:
    record = sweep_record(sweep_run([pass_at(1, "stock", 100, sessions=1)]))
    row = next(csv.DictReader(io.StringIO(to_csv(record).decode())))
    for name in ("sessions_per_s", "goodput_requests_per_s", "tokens_per_verify_step", "speedup",
                 "output_tokens_per_s_high", "kv_usage_max"):  # fmt: skip
        assert row[name] == "", name


def test_a_sweep_without_points_has_a_header_only() -> None:
    assert to_csv(sweep_record(sweep_run([]))).count(b"\n") == 1


def test_parquet_holds_the_same_with_types(tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="the extra parquet is not installed")
    record = sweep_record(two_arms())
    path = tmp_path / "sweep.parquet"
    write_parquet(record, path)
    table = parquet.read_table(path)
    assert table.to_pylist() == rows_of(record)
    types = {field.name: str(field.type) for field in table.schema}
    assert types["lanes"] == "int64"
    assert types["sessions_per_s"] == "double"  # known nowhere, and a number all the same
    assert types["valid"] == "bool"
    assert types["engine"] == "string"
