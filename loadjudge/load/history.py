"""What a session's next request says: its messages so far, with the model's own replies.

Design: architecture, "Formats". Pure: values in, messages out.
"""

from typing import Any

import orjson

from loadjudge.load.task import HistoryPolicy
from loadjudge.sessions.model import Message, Session, Turn
from loadjudge.wire.reply import Reply, ToolCall

# A call that the session has no result for still needs an answer: endpoints refuse a history
# with open calls.
UNANSWERED = "error: this call was not run"


class History:
    """The messages of one play of one session."""

    def __init__(self, session: Session, policy: HistoryPolicy, keep_reasoning: bool) -> None:
        self.messages: list[Message] = []
        self._session = session
        self._policy = policy
        self._keep_reasoning = keep_reasoning
        self._open_calls: list[str] = []  # ids of calls in the last reply
        self.converted_results = 0  # of the last turn begun
        self.unanswered_calls = 0
        self.repaired_calls = 0  # of the last reply

    def begin(self, turn: Turn) -> list[Message]:
        """Adds a turn's messages; what is sent for it.

        A tool message answers the model's own call in the same place and takes its id. Where
        the model made no such call its content goes in as a user message, and calls beyond the
        session's results are answered with an error; both are counted.
        """
        results = [m for m in turn.messages if m["role"] == "tool"]
        answers = dict(zip(map(id, results), self._open_calls, strict=False))
        self.converted_results = len(results) - len(answers)
        left_open = self._open_calls[len(answers) :]
        self.unanswered_calls = len(left_open)
        self._open_calls = []
        fill = [{"role": "tool", "tool_call_id": c, "content": UNANSWERED} for c in left_open]
        answered: list[Message] = []
        rest: list[Message] = []
        for message in turn.messages:
            if id(message) in answers:
                answered.append({**message, "tool_call_id": answers[id(message)]})
            elif message["role"] == "tool":
                rest.append({"role": "user", "content": message.get("content") or ""})
            else:
                rest.append(message)
        # Answers directly follow the reply that called.
        self.messages += [*answered, *fill, *rest]
        return self.messages

    def end(self, turn: Turn, reply: Reply) -> None:
        """Adds what the model said (its own reply, or the recorded one by policy)."""
        self.repaired_calls = 0
        if self._policy == "recorded" and turn.recorded is not None:
            self.messages.append(turn.recorded)
            self._open_calls = [c["id"] for c in turn.recorded.get("tool_calls") or ()]
            return
        message: Message = {"role": "assistant", "content": reply.content}
        if reply.reasoning and self._keep_reasoning:
            message[_field(reply)] = reply.reasoning
        if reply.tool_calls:
            message["content"] = reply.content or None
            message["tool_calls"] = [self._call(c) for c in reply.tool_calls]
        self._open_calls = [c.id for c in reply.tool_calls]
        self.messages.append(message)

    def _call(self, call: ToolCall) -> dict[str, Any]:
        """The call as it is sent back. Arguments that are no JSON object would be refused by
        chat templates that read them: they go back wrapped in one, which is counted."""
        arguments = call.arguments or "{}"
        try:
            whole = isinstance(orjson.loads(arguments), dict)
        except orjson.JSONDecodeError:
            whole = False
        if not whole:
            self.repaired_calls += 1
            arguments = orjson.dumps({"text": arguments}).decode()
        return {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": arguments},
        }


def _field(reply: Reply) -> str:
    """Reasoning goes back under the name it came under; details are sent as plain reasoning."""
    return "reasoning_content" if reply.reasoning_field == "reasoning_content" else "reasoning"
