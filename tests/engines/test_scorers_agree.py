"""The stock vLLM's endpoint and torch with the same weights say the same of the same replies."""

import json
import subprocess
import sysconfig
from typing import Any

import numpy as np
import pytest

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.http import PlainClient
from loadjudge.gates.scorers.endpoint import endpoint_scorer
from loadjudge.paths import data_root
from loadjudge.servers.home import home
from loadjudge.servers.kit import Kit
from loadjudge.sessions.read import read_sessions
from loadjudge.wire.request import Sampling, chat_body
from tests.engines.conftest import PATIENCE_S, TASK

pytestmark = pytest.mark.engines

SAMPLING = Sampling(temperature=0.7, top_k=20, top_p=0.95)
AGREE_NATS = 0.01  # mean absolute difference


def torch_scores(kit: Kit, requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """What the torch scorer says in the engines' environment, which has torch."""
    done = subprocess.run(
        [
            str(kit.environment_at(home()) / "bin" / "python"),
            str(data_root() / "tests" / "engines" / "torch_scores.py"),
            *(str(data_root()), sysconfig.get_path("purelib")),
            *(str(kit.model_at(home(), "model")), "float32"),
        ],
        input=json.dumps(requests),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


async def test_endpoint_and_torch_scorers_agree(kit: Kit, stock: str) -> None:
    sessions = read_sessions(data_root() / "gates" / TASK / "sessions.jsonl", "auto")[:6]
    asked = []
    patience = Timeouts(first_byte_s=PATIENCE_S, idle_s=PATIENCE_S)
    async with (
        PlainClient(stock, timeout_s=PATIENCE_S) as http,
        LoadClient(stock, timeouts=patience) as client,
    ):
        for seed, session in enumerate(sessions):
            body = chat_body(
                TASK,
                session.turns[0].messages,
                sampling=SAMPLING,
                seed=seed,
                max_tokens=48,
                want_ids=True,
            )
            reply = (await client.chat(body)).reply
            asked.append((reply.prompt_token_ids or (), reply.token_ids or ()))
        scorer = await endpoint_scorer(http, TASK, 1024, (2,))
        endpoint = [await scorer.score(prompt, reply, SAMPLING) for prompt, reply in asked]
    sampling = {
        "temperature": SAMPLING.temperature,
        "top_k": SAMPLING.top_k,
        "top_p": SAMPLING.top_p,
    }
    requests = [{"prompt": p, "reply": r, "sampling": sampling} for p, r in asked]
    torch = torch_scores(kit, requests)
    assert [one["end_ids"] for one in torch] == [[2]] * len(asked)
    tokens = sum(len(reply) for _, reply in asked)
    assert tokens > 150
    assert all(exact for _, exact in endpoint)
    assert all(one["exact"] for one in torch)
    for name in ("logp", "expected", "q"):
        ours = np.concatenate([getattr(terms, name) for terms, _ in endpoint])
        theirs = np.concatenate([one[name] for one in torch])
        assert len(ours) == len(theirs) == tokens
        difference = float(np.abs(ours - theirs).mean())
        print(f"{name}: {tokens} tokens differ by {difference:.2e} in the mean")
        assert difference <= AGREE_NATS
