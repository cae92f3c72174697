"""What the gates need beside the timed replies: fixed texts' log-probabilities and greedy
replies, taken outside the timed windows and logged."""

import asyncio
from collections.abc import Callable, Sequence
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


async def read_texts(stock: Arm, candidate: Arm, texts: Sequence[Text], append: Append) -> None:
    """Logs both arms' log-probabilities of every token of the texts.

    Ids come from the stock engine's tokenizer and are sent as they are, so that both arms are
    asked about the same tokens.
    """
    for arm in (stock, candidate):
        if not arm.abilities.prompt_logprobs or not stock.abilities.tokenize:
            lacking = "gives no prompt log-probabilities"
            if not stock.abilities.tokenize:
                arm, lacking = stock, "has no /tokenize"
            why = f"the {arm.name} endpoint {lacking}"
            append({"event": "unavailable", "what": "fidelity", "why": why})
            return
    gate = asyncio.Semaphore(_AT_ONCE)

    async def one(arm: Arm, text: Text, ids: Sequence[int]) -> None:
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
                "id": text.id,
                "token_ids": ids,
                "logprobs": _logprobs(ids, entries, arm),
            }
        )

    for text in texts:
        ids = await stock.http.tokenize(stock.abilities.model, text=text.text)
        room = stock.abilities.max_model_len
        ids = (ids or ())[: room - 1 if room else None]
        await together(one(arm, text, ids) for arm in (stock, candidate))


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


async def read_greedy(
    stock: Arm, candidate: Arm, sessions: Sequence[Session], task: Task, append: Append
) -> None:
    """Logs temperature-0 replies to the sessions' first turns: stock twice, for the baseline."""
    for arm, round in ((stock, 0), (candidate, 0), (stock, 1)):
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
