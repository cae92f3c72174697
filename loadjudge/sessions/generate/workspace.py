"""The tools of a generated agent session, run for real in a throw-away folder.

What they return depends on nothing but the files and the arguments: names are sorted, dates and
absolute paths are not shown, and snippets print plain values.
"""

import builtins
import io
import sqlite3
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import IO, Any

_SEARCH_LIMIT = 40  # lines


def _tool(name: str, description: str, **parameters: str) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": {
                    key: {"type": "string", "description": text} for key, text in parameters.items()
                },
                "required": list(parameters),
            },
        },
    }


DEFINITIONS: dict[str, dict[str, Any]] = {
    tool["function"]["name"]: tool
    for tool in (
        _tool("list_files", "List the files of the workspace with their sizes in bytes."),
        _tool("read_file", "Show a text file with line numbers.", path="Path of the file"),
        _tool(
            "search",
            "Find the lines that contain a text, in one file or, for '.', in all files.",
            text="The text to find, exactly as written",
            path="A file, or '.'",
        ),
        _tool("write_file", "Write a text file.", path="Path of the file", content="Its text"),
        _tool(
            "edit_file",
            "Replace a text that occurs exactly once in a file.",
            path="Path of the file",
            old="The text to replace",
            new="What takes its place",
        ),
        _tool(
            "run_python", "Run Python code in the workspace; returns what it prints.", code="Code"
        ),
        _tool("sql", "Run one SQLite statement on the database.", query="The statement"),
    )
}


class Workspace:
    """A folder of files and a database in memory. Tool errors are results, as for a model."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._database = sqlite3.connect(":memory:")

    def close(self) -> None:
        """Close the database; the folder belongs to the caller."""
        self._database.close()

    def load(self, script: str) -> None:
        """Run the SQL statements that set up the database."""
        self._database.executescript(script)

    def call(self, name: str, arguments: dict[str, str]) -> str:
        """The result of one tool call, as text."""
        match name:
            case "list_files":
                return self._list()
            case "read_file":
                lines = self._text(arguments["path"]).splitlines()
                return "\n".join(f"{number:>4}  {line}" for number, line in enumerate(lines, 1))
            case "search":
                return self._search(arguments["text"], arguments["path"])
            case "write_file":
                path, content = self._root / arguments["path"], arguments["content"]
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content.encode())
                return f"wrote {arguments['path']}, {len(content.encode())} bytes"
            case "edit_file":
                return self._edit(arguments["path"], arguments["old"], arguments["new"])
            case "run_python":
                return self._python(arguments["code"])
            case "sql":
                return self._sql(arguments["query"])
        raise ValueError(f"no tool {name}")

    def _paths(self) -> list[Path]:
        return sorted(path for path in self._root.rglob("*") if path.is_file())

    def _name(self, path: Path) -> str:
        return path.relative_to(self._root).as_posix()

    def _text(self, name: str) -> str:
        return (self._root / name).read_bytes().decode()

    def _list(self) -> str:
        return "\n".join(f"{path.stat().st_size:>7}  {self._name(path)}" for path in self._paths())

    def _search(self, text: str, name: str) -> str:
        paths = self._paths() if name == "." else [self._root / name]
        found = [
            f"{self._name(path)}:{number}: {line}"
            for path in paths
            for number, line in enumerate(path.read_bytes().decode().splitlines(), 1)
            if text in line
        ]
        if len(found) > _SEARCH_LIMIT:
            found = [*found[:_SEARCH_LIMIT], f"... {len(found) - _SEARCH_LIMIT} more lines"]
        return "\n".join(found) or f"no line contains {text!r}"

    def _edit(self, name: str, old: str, new: str) -> str:
        text = self._text(name)
        if text.count(old) != 1:
            return f"error: the text occurs {text.count(old)} times in {name}, not once"
        (self._root / name).write_bytes(text.replace(old, new).encode())
        return f"edited {name}"

    def _python(self, code: str) -> str:
        # The code is our own, so it runs in this process, with an open, a print and an import
        # that know the workspace: starting an interpreter each time took most of the time.
        printed = io.StringIO()
        own: dict[str, Any] = {
            **vars(builtins),
            "open": self._open,
            "print": partial(print, file=printed),
            "__import__": lambda name, *rest: self._import(own, name, *rest),
        }
        try:
            exec(code, {"__builtins__": own})
        except Exception as error:  # whatever it is, the model would see it
            printed.write(f"{type(error).__name__}: {error}")
        return printed.getvalue().rstrip("\n") or "(no output)"

    def _open(self, name: str, mode: str = "r") -> IO[str]:
        if mode == "r":
            return io.StringIO(self._text(name))
        return open(self._root / name, mode, encoding="utf-8", newline="")

    def _import(self, own: dict[str, Any], name: str, *rest: Any) -> Any:
        if not (self._root / f"{name}.py").is_file():
            return __import__(name, *rest)
        module = ModuleType(name)
        vars(module)["__builtins__"] = own
        exec(self._text(f"{name}.py"), vars(module))
        return module

    def _sql(self, query: str) -> str:
        try:
            cursor = self._database.execute(query)
        except sqlite3.Error as error:
            return f"error: {error}"
        if cursor.description is None:
            return f"ok, {cursor.rowcount} rows changed"
        rows = cursor.fetchall()
        head = " | ".join(column[0] for column in cursor.description)
        body = [" | ".join("NULL" if v is None else str(v) for v in row) for row in rows]
        return "\n".join([head, *body, f"({len(rows)} rows)"])
