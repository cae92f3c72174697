"""The evaluation record: ours, the seeds', and what is refused."""

import math
from pathlib import Path

import orjson
import pytest

from loadjudge.errors import JudgeError
from loadjudge.record.evaluation import (
    SCHEMA_FILE,
    Evaluation,
    Limits,
    Pooled,
    Ratio,
    SpecScoreInterval,
    read_evaluation,
    schema,
)

RECORDS = Path(__file__).parents[3] / "shared" / "data" / "records"
SEEDS = ("qwen3-8b-development-1.946", "qwen35-27b-development-1.318")
BARE = Evaluation(ratios={}, specscore=None, limits=Limits(), reason=None, score=None)


def test_the_schema_that_ships_is_up_to_date() -> None:
    assert SCHEMA_FILE.read_bytes() == schema(), "run python -m loadjudge.record.evaluation"


@pytest.mark.parametrize("name", SEEDS)
def test_a_seed_record_loads_and_loses_nothing(name: str) -> None:
    path = RECORDS / f"{name}.json"
    if not path.is_file():
        pytest.skip(f"the seed record {path} isn't here")
    given = orjson.loads(path.read_bytes())
    kept = orjson.loads(read_evaluation(path).to_bytes())
    assert {k: v for k, v in kept.items() if k != "limits"} == {
        k: v for k, v in given.items() if k != "limits"
    }
    # A limit that is null is none, and is left out.
    assert kept["limits"] == {k: v for k, v in given["limits"].items() if v is not None}


def test_an_unknown_key_is_refused_by_its_name(tmp_path: Path) -> None:
    path = tmp_path / "evaluation.json"
    values = orjson.loads(BARE.to_bytes())
    path.write_bytes(orjson.dumps({**values, "ratios": {"solo": {"passes": [], "raito": 1}}}))
    with pytest.raises(JudgeError, match=r"evaluation\.json is not an .*: ratios\.solo\."):
        read_evaluation(path)
    path.write_bytes(orjson.dumps({**values, "speckscore": 1.0}))
    with pytest.raises(JudgeError, match="speckscore: extra inputs are not permitted"):
        read_evaluation(path)


@pytest.mark.parametrize(
    ("data", "why"), [(b"{", "is not JSON"), (b"[]", "the top level: "), (None, "can't be read")]
)
def test_what_is_no_record_is_refused_in_a_sentence(
    tmp_path: Path, data: bytes | None, why: str
) -> None:
    path = tmp_path / "evaluation.json"
    if data is not None:
        path.write_bytes(data)
    with pytest.raises(JudgeError, match=why):
        read_evaluation(path)


def test_bounds_without_end_survive_the_round_trip(tmp_path: Path) -> None:
    record = BARE.model_copy(
        update={
            "ratios": {"solo": Ratio(passes=[1.5], ratio=1.5)},
            "pooled": {"solo": Pooled(ratio=1.5, low=0, high=math.inf, sessions=1)},
            "specscore_interval": SpecScoreInterval(specscore=1.5, low=-math.inf, high=math.inf),
        }
    )
    path = tmp_path / "evaluation.json"
    path.write_bytes(record.to_bytes())
    assert b'"Infinity"' in path.read_bytes()
    assert read_evaluation(path) == record


def test_the_seeds_own_keys_are_written_where_they_say_nothing() -> None:
    assert orjson.loads(BARE.to_bytes()) == {
        "ratios": {},
        "specscore": None,
        "limits": {},
        "reason": None,
        "score": None,
    }
