"""A synthetic run and its record: seeded, with arrivals as engines make them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadjudge.record.evaluation import (
    Agreement,
    ArmFigures,
    Control,
    Evaluation,
    Gap,
    Gate,
    Latency,
    LengthRatio,
    Limits,
    Memory,
    Pooled,
    Quantile,
    Ratio,
    SpecScoreInterval,
    WorkloadFigures,
    read_evaluation,
)
from loadjudge.record.values import Arm, PassRecord, PlayRecord, RunRecord, TurnRecord

RECORDS = Path(__file__).parents[3] / "shared" / "data" / "records"
SEEDS = ("qwen3-8b-development-1.946", "qwen35-27b-development-1.318")
LANES = {"solo": 1, "team": 4, "busy": 24}
STEP_S = {"solo": 0.014, "team": 0.017, "busy": 0.034}  # one decode or verify step
ACCEPTED = {"stock": 1.0, "candidate": 3.2}  # tokens per step
SLOWER = {"stock": 1.0, "candidate": {"solo": 1.25, "team": 1.55, "busy": 2.1}}
ORDER: tuple[Arm, ...] = ("stock", "candidate", "candidate", "stock", "stock", "candidate")


@pytest.fixture(params=SEEDS)
def seed_record(request: pytest.FixtureRequest) -> Evaluation:
    path = RECORDS / f"{request.param}.json"
    if not path.is_file():
        pytest.skip(f"the seed record {path} isn't here")
    return read_evaluation(path)


@pytest.fixture(scope="session")
def run() -> RunRecord:
    return make_run()


@pytest.fixture(scope="session")
def evaluation() -> Evaluation:
    return make_evaluation()


@pytest.fixture(scope="session")
def make_turn() -> Callable[..., TurnRecord]:
    return turn


@pytest.fixture(scope="session")
def make_pass() -> Callable[..., PassRecord]:
    return pass_of


def turn(index: int = 0, sent_s: float = 0.0, **changes: Any) -> TurnRecord:
    """A turn of two tokens, or of whatever ``changes`` says."""
    arrivals = changes.pop("arrivals", ((sent_s + 0.1, 1, 4), (sent_s + 0.2, 1, 4)))
    counted = sum(tokens or 0 for _, tokens, _ in arrivals)
    values: dict[str, Any] = {
        "index": index,
        "scheduled_s": sent_s,
        "sent_s": sent_s,
        "done_s": (arrivals[-1][0] if arrivals else sent_s) + 0.001,
        "arrivals": arrivals,
        "first_content_s": arrivals[0][0] if arrivals else None,
        "finish_reason": "stop",
        "tokens": counted,
        "source": "ids",
        "reported_tokens": counted,
        "prompt_tokens": 400 + 300 * index,
        "cached_tokens": 300 * index,
        "content": "…",
        "reasoning": "",
        "tool_calls": (),
        "token_ids": None,
        "prompt_ids": None,
        "error": None,
        "converted_results": 0,
        "repaired_calls": 0,
        "connected": index == 0,
        "resends": 0,
    }
    return TurnRecord(**{**values, **changes})


def pass_of(plays: tuple[PlayRecord, ...], **changes: Any) -> PassRecord:
    values: dict[str, Any] = {
        "workload": "solo",
        "arm": "stock",
        "number": 0,
        "slot": 0,
        "lanes": 1,
        "plays": plays,
        "open_s": 0.0,
        "close_s": 1.0,
        "lag": {"mean": 0.0002, "p50": 0.0001, "p99": 0.0011, "max": 0.004, "n": 900},
        "cpu": 0.21,
        "in_flight": None,
        "counters": None,
        "salt": "pass-0",
        "cache_reset": False,
    }
    return PassRecord(**{**values, **changes})


def make_run(seed: int = 1, scale: float = 1.0) -> RunRecord:
    """Three workloads × six passes; ``scale`` multiplies the sessions of a pass."""
    rng = np.random.default_rng(seed)
    passes = [
        _pass(rng, workload, arm, slot, scale)
        for workload in LANES
        for slot, arm in enumerate(ORDER)
    ]
    return RunRecord(
        header={**METADATA, "event": "run"},
        passes=tuple(passes),
        texts=(),
        greedy=(),
        memory=(),
        engines=({"event": "engine", "arm": "stock", "what": "ready", "after_s": 41.2},),
        notes=("The client ran on the machine that it measured.",),
        lanes={"busy": {"lanes": 24, "kv_tokens": 131_072, "fill": 0.95}},
        unavailable={"support": "the endpoint gives no log-probabilities of the prompt"},
        complete=True,
        died=None,
    )


def _pass(rng: np.random.Generator, workload: str, arm: Arm, slot: int, scale: float) -> PassRecord:
    lanes = LANES[workload]
    sessions = round(scale * {"solo": 10, "team": 30, "busy": 75}[workload])
    free = [(0.35 * lane / lanes + rng.uniform(0, 0.1), lane) for lane in range(lanes)]
    plays: list[PlayRecord] = []
    close = 0.0
    for number in range(100_000):
        clock, lane = min(free)
        measured = number < sessions
        if not measured and clock >= close:
            break
        play, end = _play(rng, workload, arm, lane, number, clock, measured)
        plays.append(play)
        free[free.index((clock, lane))] = (end, lane)
        close = max(close, end) if measured else close
    drafts = 900.0
    return pass_of(
        tuple(plays),
        workload=workload,
        arm=arm,
        number=ORDER[:slot].count(arm),
        slot=slot,
        lanes=lanes,
        open_s=0.45,
        close_s=close,
        in_flight={"mean": 0.97 * lanes, "max": float(lanes), "samples": 120.0},
        counters=None if arm == "stock" else {"drafts": drafts, "accepted": 2.2 * drafts},
        salt=f"{workload}-{slot}",
    )


def _play(
    rng: np.random.Generator,
    workload: str,
    arm: Arm,
    lane: int,
    number: int,
    clock: float,
    measured: bool,
) -> tuple[PlayRecord, float]:
    slower: Any = SLOWER[arm]
    step = STEP_S[workload] * (slower if isinstance(slower, float) else slower[workload])
    turns: list[TurnRecord] = []
    for index in range(int(rng.integers(2, 9))):
        sent = clock
        clock += step * 2 + float(rng.lognormal(-3.6, 0.5)) * (1 + 0.3 * index)
        arrivals: list[tuple[float, int | None, int]] = []
        for _ in range(int(rng.integers(8, 40) / ACCEPTED[arm]) + 1):
            tokens = 1 if arm == "stock" else int(rng.binomial(6, 0.37 - 0.01 * index)) + 1
            arrivals.append((clock, tokens, 4 * tokens))
            clock += float(step * rng.gamma(40, 1 / 40) + (rng.random() < 0.01) * 0.08)
        failed = measured and arm == "candidate" and rng.random() < 0.004
        turns.append(
            turn(
                index,
                sent,
                arrivals=tuple(arrivals),
                error=("timeout", "no answer within 30 s") if failed else None,
            )
        )
        clock = (turns[-1].last_s or clock) + 0.003
    play = PlayRecord(
        session=f"chat-{lane}-{number}",
        play=f"chat-{lane}-{number}#0",
        measured=measured,
        lane=lane,
        turns=tuple(turns),
        outcome="done",
        waited_s=0.0,
    )
    return play, clock


METADATA: dict[str, Any] = {
    "schema": 1,
    "started": "2026-11-30T13:02:11+00:00",
    "loadjudge": "0.1.0",
    "seed": 7,
    "task": {
        "name": "qwen3-8b",
        "target": "Qwen/Qwen3-8B@b968826",
        "dtype": "bfloat16",
        "sampling": {"temperature": 0.7, "top_p": 0.8, "top_k": 20},
        "history": "own",
        "passes": 3,
        "workloads": {"solo": {"lanes": 1}, "team": {"lanes": 4}, "busy": {"lanes": "kv"}},
    },
    "split": "development",
    "engines": {
        "stock": {
            "name": "vLLM 0.14",
            "family": "vllm",
            "kind": "stock",
            "method": None,
            "speculator": None,
            "url": None,
            "directory": "servers/qwen3-8b/stock",
            "command": ["vllm", "serve", "{model}", "--uds", "{socket}", "--max-num-seqs", "64"],
            "env": {"VLLM_USE_V1": "1"},
        },
        "candidate": {
            "name": "EAGLE-3, k = 3",
            "family": "vllm",
            "kind": "eagle3",
            "method": "EAGLE-3 head, three draft tokens, chain",
            "speculator": "RedHatAI/Qwen3-8B-speculator.eagle3@08610ff",
            "url": None,
            "directory": "servers/qwen3-8b/eagle3",
            "command": [
                *("vllm", "serve", "{model}", "--uds", "{socket}", "--max-num-seqs", "64"),
                "--speculative-config",
                '{"method": "eagle3", "num_speculative_tokens": 3, "model": "{speculator}"}',
            ],
            "env": {"VLLM_USE_V1": "1"},
        },
    },
    "model": None,
    "extra_body": {},
    "session_files": [{"path": "/data/chat.jsonl", "sha256": "5f1c" * 16}],
    "sessions": {w: [f"chat-{i}" for i in range(3 * n + 3)] for w, n in LANES.items()},
    "machine": {"gpu": "NVIDIA H200", "processor": "AMD EPYC 9654", "cores": 192},
    "versions": {"python": "3.11.2", "aiohttp": "3.13.2", "numpy": "2.3.5"},
}


def make_evaluation(**changes: Any) -> Evaluation:
    """A full record of ours that passed, or whatever ``changes`` makes of it."""
    speed = {"solo": 2.54, "team": 1.81, "busy": 1.31}
    ratios = {w: Ratio(passes=[r * 1.02, r, r * 0.95], ratio=r) for w, r in speed.items()}
    pooled = {
        w: Pooled(low=r * 0.94, high=r * 1.06, ratio=r * 0.99, sessions=80)
        for w, r in speed.items()
    }
    values: dict[str, Any] = {
        "ratios": ratios,
        "specscore": 1.819,
        "greedy_agreement": 0.912,
        "likelihood": Gap(gap=0.0131, se=0.0255, candidate=-0.4665, stock=-0.4796),
        "argmax": Gap(gap=-0.0044, se=0.0059, candidate=0.7312, stock=0.7356),
        "fidelity": 0.0118,
        "lengths": {w: LengthRatio(ratio=1.01, low=0.97, high=1.04) for w in speed},
        "memory": Memory(
            ok=True,
            peak_mib=132_430.0,
            allowed_mib=135_119.0,
            stock_peak_mib=131_023.0,
            kind="device",
        ),
        "acceptance": {"solo": 3.21, "team": 3.18, "busy": None},
        "limits": Limits(likelihood_bound=0.05, argmax_bound=0.01, memory_slack_mib=4096),
        "reason": None,
        "score": 1.819,
        "schema_version": 1,
        "verdict": "passed",
        "rule": "decide",
        "gates": make_gates(),
        "pooled": pooled,
        "specscore_interval": SpecScoreInterval(low=1.742, high=1.899, specscore=1.813),
        "control": Control(
            ratios={w: Ratio(passes=[1.01, 0.99], ratio=1.0) for w in speed},
            pooled={w: Pooled(low=0.97, high=1.03, ratio=1.0, sessions=80) for w in speed},
            specscore=SpecScoreInterval(low=0.981, high=1.018, specscore=1.001),
        ),
        "agreement": Agreement(candidate=0.912, stock=0.934, replies=160),
        "workloads": {w: _figures(w) for w in speed},
        "notes": ["The client ran on the machine that it measured."],
        "unavailable": {"support": "the endpoint gives no log-probabilities of the prompt"},
        "run": METADATA,
    }
    return Evaluation.model_validate({**values, **changes})


def make_gates(**changes: Gate) -> dict[str, Gate]:
    def gate(sentence: str, figure: float | None, *numbers: float | None) -> Gate:
        low, high, bound_low, bound_high = numbers
        return Gate(
            verdict="pass",
            sentence=sentence,
            figure=figure,
            low=low,
            high=high,
            bound_low=bound_low,
            bound_high=bound_high,
        )

    return {
        "memory": gate("Peak memory is within the slack.", 132_430.0, None, None, None, 135_119.0),
        "fidelity": gate("Fixed texts read the same.", 0.0118, None, None, None, 0.02),
        "likelihood": gate("Replies are as likely.", 0.0021, -0.0112, 0.0154, -0.05, 0.05),
        "argmax": gate("First choices are as frequent.", -0.0012, -0.0061, 0.0037, -0.01, 0.01),
        "agreement": Gate(verdict="n/a", sentence="This task sets no floor.", figure=0.912),
        "lengths": gate("Replies are as long.", 1.01, 0.97, 1.04, 0.95, 1.05),
        "support": Gate(verdict="n/a", sentence=""),
        "ranks": gate("Ranks are uniform.", 0.43, None, None, 0.001, None),
        "integrity": gate("Counts and ids agree with the text.", 0.0, None, None, None, 0.0),
        **changes,
    }


def _figures(workload: str) -> WorkloadFigures:
    return WorkloadFigures(
        lanes=LANES[workload],
        lanes_seen={"stock": 0.97 * LANES[workload], "candidate": None},
        arms={arm: _arm(workload, arm) for arm in ("stock", "candidate")},
        lag_s=0.0002,
        median_tpot_s=STEP_S[workload],
        lag_share=0.0143,
    )


def _arm(workload: str, arm: str) -> ArmFigures:
    candidate = arm == "candidate"
    factor = 0.45 if candidate else 1.0
    step = STEP_S[workload]

    def latency(scale: float) -> Latency:
        p50, p90, p99 = (scale * k for k in (1.0, 1.7, 3.9))
        each = [Quantile(value=v, low=0.96 * v, high=1.05 * v) for v in (p50, p90, p99)]
        return Latency(n=1240, mean=1.12 * scale, p50=each[0], p90=each[1], p99=each[2])

    return ArmFigures(
        passes=3,
        sessions=80,
        turns=412,
        failed_turns=2 if candidate else 0,
        errors={"timeout": 2} if candidate else {},
        output_tokens=128_412 if candidate else 127_996,
        reported_tokens=128_430 if candidate else None,
        prompt_tokens=912_004,
        cached_tokens=604_113 if candidate else None,
        count_sources={"ids": 410} if candidate else {"tokenizer": 412},
        cut_at_max_tokens=7,
        converted_results=3,
        repaired_calls=1 if candidate else 0,
        resends=1 if candidate else 0,
        lane_seconds=1804.2 * factor,
        tokens_per_s_per_lane=71.2 / factor,
        tokens_per_s=71.2 * LANES[workload] / factor,
        acceptance=3.21 if candidate and workload != "busy" else None,
        kv_usage_max=0.93 if workload == "busy" else None,
        preemptions=12.0 if workload == "busy" else None,
        latencies={
            "ttft": latency(0.041 if workload == "solo" else 0.212),
            "ttfot": latency(0.052),
            "itl": latency(step * factor),
            "tpot": latency(step * factor),
            "e2el": latency(4.21 * factor),
            "queue": latency(0.00042),
        },
    )
