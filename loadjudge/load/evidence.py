"""What the gates need beside the timed replies: fixed texts' log-probabilities and greedy
replies, taken outside the timed windows and logged."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from loadjudge.client.client import LoadClient
from loadjudge.client.failures import CallError
from loadjudge.errors import JudgeError, Status
from loadjudge.load.arm import Arm
from loadjudge.load.history import History
from loadjudge.load.task import Task
from loadjudge.load.together import together
from loadjudge.record.log import Event
from loadjudge.servers.families import FAMILIES
from loadjudge.sessions.model import Session
from loadjudge.sessions.shipped import Text
from loadjudge.wire.request import Sampling, chat_body

_AT_ONCE = 4
Append = Callable[[Event], None]


async def text_ids(stock: Arm, texts: Sequence[Text]) -> dict[str, tuple[int, ...]]:
    """Ids of the texts' tokens by the stock engine's tokenizer, so that both arms are asked about
    the same tokens. Empty where it has none."""
    if not stock.abilities.tokenize:
        return {}
    room = stock.abilities.max_model_len
    found = {}
    for text in texts:
        ids = await stock.http.tokenize(stock.abilities.model, text=text.text)
        found[text.id] = (ids or ())[: room - 1 if room else None]
    return found


async def read_texts(arm: Arm, texts: Mapping[str, Sequence[int]], append: Append) -> None:
    """Logs the arm's log-probabilities of every token of the texts, which are sent as ids."""
    why = None
    if not texts:
        why = "the stock endpoint has no /tokenize"
    elif not arm.abilities.prompt_logprobs:
        why = f"the {arm.name} endpoint gives no prompt log-probabilities"
    if why is not None:
        append({"event": "unavailable", "what": "fidelity", "why": why})
        return
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(id: str, ids: Sequence[int]) -> None:
        async with gate:
            body = {
                "model": arm.abilities.model,
                "prompt": list(ids),
                "max_tokens": 1,
                "temperature": 0,
                "prompt_logprobs": 0,
            }
            answer = await arm.http.completions(body)
        entries = answer["choices"][0]["prompt_logprobs"]
        append(
            {
                "event": "text",
                "arm": arm.name,
                "id": id,
                "token_ids": ids,
                "logprobs": _logprobs(ids, entries, arm),
            }
        )

    await together(one(id, ids) for id, ids in texts.items())


def _logprobs(ids: Sequence[int], entries: Sequence[Any], arm: Arm) -> list[float]:
    """The log-probability of each token but the first, in nats."""
    try:
        return [
            float(entry[str(token)]["logprob"])
            for token, entry in zip(ids[1:], entries[1:], strict=True)
        ]
    except (KeyError, TypeError, ValueError) as e:
        raise JudgeError(
            f"the {arm.name} endpoint's prompt_logprobs are not one entry a prompt token that "
            f"holds the token itself ({type(e).__name__}: {e})",
            Status.RUN,
        ) from None


async def read_greedy(arm: Arm, sessions: Sequence[Session], task: Task, append: Append) -> None:
    """Logs temperature-0 replies to the sessions' first turns: stock's twice, for the baseline."""
    for round in (0, 1) if arm.name == "stock" else (0,):
        gate = asyncio.Semaphore(_AT_ONCE)
        async with arm.load_client() as client:
            await together(
                _greedy(arm, round, session, task, client, gate, append) for session in sessions
            )


async def _greedy(
    arm: Arm,
    round: int,
    session: Session,
    task: Task,
    client: LoadClient,
    gate: asyncio.Semaphore,
    append: Append,
) -> None:
    history = History(session, task.history, task.keep_reasoning)
    body = chat_body(
        arm.abilities.model,
        history.begin(session.turns[0]),
        tools=session.tools,
        sampling=Sampling(temperature=0),
        max_tokens=task.greedy.max_tokens,
        want_ids=arm.abilities.token_ids,
        neutral=FAMILIES[arm.abilities.family].neutral,
    )
    async with gate:
        try:
            call = await client.chat(body)
        except CallError as error:
            append(
                {
                    "event": "note",
                    "text": f"a greedy reply of {arm.name} to {session.id} failed: {error}",
                }
            )
            return
    reply = call.reply
    said = reply.reasoning + reply.content + "".join(c.name + c.arguments for c in reply.tool_calls)
    append(
        {
            "event": "greedy",
            "arm": arm.name,
            "round": round,
            "session": session.id,
            "content": said,
            "token_ids": reply.token_ids,
        }
    )
