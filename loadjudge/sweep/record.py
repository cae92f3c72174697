"""The record of a sweep, ``sweep.json``: what is written, and what pages and tables are made of."""

from typing import Any, Literal

import orjson

from loadjudge.record.evaluation import ArmFigures, Interval, Model, Pooled
from loadjudge.record.values import Arm
from loadjudge.sweep.knee import Knee
from loadjudge.sweep.search import SearchResult
from loadjudge.sweep.slo import Slo, SloVerdict

SCHEMA_VERSION = 1


class Estimate(Interval):
    """A figure with its 95 % interval over sessions."""

    value: float


class SloFigure(Model):
    """An objective at one point: the statistic in ms, and whether it is kept."""

    slo: Slo
    figure_ms: float | None
    verdict: SloVerdict
    keeps: bool


class ArmPoint(Model):
    """What one arm did at one point."""

    valid: bool
    invalid: list[str]  # reasons why not
    notes: list[str]
    figures: ArmFigures  # its latencies have intervals over sessions
    total: Estimate  # output tokens a second of all
    per_user: Estimate  # output tokens a second of a lane
    requests_per_s: float  # turns that went well
    in_flight: float  # mean turns in flight, as the client saw them
    lanes_seen: float | None  # and as the server did
    good: Estimate | None  # share of turns that kept --goodput's limits
    goodput: Estimate | None  # such turns a second
    slos: list[SloFigure]


class PointFigures(Model):
    point: str
    lanes: int | None  # None: an open loop
    rate: float | None  # sessions a second
    arms: dict[Arm, ArmPoint]
    speedup: Pooled | None  # candidate over stock, tokens a lane second


class SweepRecord(Model):
    kind: Literal["sweep"] = "sweep"
    schema_version: int = SCHEMA_VERSION
    complete: bool
    died: str | None
    engines: dict[Arm, str]  # names
    points: list[PointFigures]  # by their load
    knees: dict[Arm, Knee]
    search: dict[Arm, SearchResult]
    goodput_limits_ms: dict[str, float]
    slos: list[Slo]
    notes: list[str]
    run: dict[str, Any]  # seeds, versions, machine, hashes, engines' whole configuration

    def to_bytes(self) -> bytes:
        """JSON as written."""
        # By way of JSON: only there does pydantic write infinity as a string.
        values = orjson.loads(self.model_dump_json())
        return orjson.dumps(values, option=orjson.OPT_INDENT_2) + b"\n"

    @property
    def arms(self) -> tuple[Arm, ...]:
        return tuple(self.engines)
