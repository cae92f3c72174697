"""Where an agent session is acted out: what is said and called, and what the tools return."""

from pathlib import Path

import orjson

from loadjudge.sessions.generate.draw import Draw
from loadjudge.sessions.generate.workspace import Workspace
from loadjudge.sessions.model import Message


class Desk:
    """Records a session while its scenario acts: the calls run, their results are real."""

    def __init__(self, draw: Draw, workspace: Workspace) -> None:
        self.draw = draw
        self.messages: list[Message] = []
        self.tools: list[str] = []
        self.files: list[str] = []  # at the start
        self._workspace = workspace

    def begin(self, system: str, tools: list[str], files: dict[str, str], sql: str = "") -> None:
        """The system message, the tools on offer, and the workspace at the start."""
        self.messages.append({"role": "system", "content": system})
        self.tools, self.files = tools, sorted(files)
        for path, content in files.items():
            self._workspace.call("write_file", {"path": path, "content": content})
        if sql:
            self._workspace.load(sql)

    def user(self, *wordings: str) -> None:
        """A user message, in one of its wordings."""
        self.messages.append({"role": "user", "content": self.draw.pick(wordings)})

    def say(self, text: str) -> None:
        """A reply without a call."""
        self.messages.append({"role": "assistant", "content": text})

    def settle(self) -> None:
        """Leave nothing open, so that the session can go on: drop a question without an answer."""
        if self.messages[-1]["role"] == "user":
            self.messages.pop()
        if self.messages[-1]["role"] == "tool":
            self.say(self.draw.pick(("Done.", "That is done.", "Done, as asked.")))

    def call(self, say: str, *calls: tuple[str, dict[str, str]]) -> list[str]:
        """A reply with calls, and their results, in order."""
        ids = [f"call_{self.draw.below(1 << 48):012x}" for _ in calls]
        self.messages.append(
            {
                "role": "assistant",
                "content": say,
                "tool_calls": [
                    {
                        "id": id,
                        "type": "function",
                        "function": {"name": name, "arguments": orjson.dumps(arguments).decode()},
                    }
                    for id, (name, arguments) in zip(ids, calls, strict=True)
                ],
            }
        )
        results = [self._workspace.call(name, arguments) for name, arguments in calls]
        self.messages += [
            {"role": "tool", "tool_call_id": id, "content": result}
            for id, result in zip(ids, results, strict=True)
        ]
        return results

    def probe(self, code: str) -> str:
        """What ``code`` prints, off the record: for expected values."""
        return self._workspace.call("run_python", {"code": code})


def read(path: str | Path) -> tuple[str, dict[str, str]]:
    """A call of read_file."""
    return "read_file", {"path": str(path)}


def search(text: str, path: str = ".") -> tuple[str, dict[str, str]]:
    """A call of search."""
    return "search", {"text": text, "path": path}


def python(code: str) -> tuple[str, dict[str, str]]:
    """A call of run_python."""
    return "run_python", {"code": code}


def edit(path: str, old: str, new: str) -> tuple[str, dict[str, str]]:
    """A call of edit_file."""
    return "edit_file", {"path": path, "old": old, "new": new}


def write(path: str, content: str) -> tuple[str, dict[str, str]]:
    """A call of write_file."""
    return "write_file", {"path": path, "content": content}


def sql(query: str) -> tuple[str, dict[str, str]]:
    """A call of sql."""
    return "sql", {"query": query}


LIST: tuple[str, dict[str, str]] = ("list_files", {})
