"""An engine directory: ``engine.toml`` and whatever its command needs."""

import sys
import tomllib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadjudge.errors import JudgeError, Status
from loadjudge.paths import data_root
from loadjudge.servers.families import FAMILIES

Family = Literal["vllm", "sglang", "llamacpp", "trtllm", "lmdeploy", "tgi", "reference", "openai"]
Kind = Literal["eagle3", "mtp", "ngram", "draft", "other", "stock"]


class EngineFile(BaseModel):
    """The ``[engine]`` table. See ARCHITECTURE.md, "Formats"."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    name: str
    family: Family
    kind: Kind = "other"
    method: str = ""
    speculator: str = "none"
    command: list[str] = Field(min_length=1)
    env: dict[str, str] = {}
    requirements: list[str] = []
    ready_path: str | None = None  # None: the family's
    ready_timeout_s: float = Field(default=600, gt=0)


@dataclass(frozen=True, slots=True)
class Engine:
    """What one arm is: a directory's engine, or an endpoint that runs already."""

    name: str
    family: Family | None  # None: to be found out from the endpoint
    kind: Kind = "other"
    method: str = ""
    speculator: str = "none"
    url: str | None = None
    directory: Path | None = None
    command: tuple[str, ...] = ()
    env: dict[str, str] = field(default_factory=dict)
    ready_path: str = "/health"
    ready_timeout_s: float = 600.0

    def filled(self, *, socket: Path, port: int, model: str) -> list[str]:
        """The command with its places filled in."""
        places = {
            "{socket}": str(socket),
            "{port}": str(port),
            "{model}": model,
            "{python}": sys.executable,
            "{directory}": str(self.directory),
        }
        filled = []
        for word in self.command:
            for place, value in places.items():
                word = word.replace(place, value)
            filled.append(word)
        return filled

    @property
    def uses_port(self) -> bool:
        return any("{port}" in word for word in self.command)

    def describe(self) -> dict[str, Any]:
        """The whole configuration, as the record keeps it."""
        return {
            "name": self.name,
            "family": self.family,
            "kind": self.kind,
            "method": self.method,
            "speculator": self.speculator,
            "url": self.url,
            "directory": None if self.directory is None else str(self.directory),
            "command": list(self.command),
            "env": self.env,
        }


def find_engine(where: str) -> Engine:
    """The engine that ``--candidate`` or ``--stock`` names: a URL or a directory.

    A directory is looked for as given, then among those that ship. Raises JudgeError.
    """
    if where.startswith(("http://", "https://", "unix:")):
        return Engine(name=where, family=None, url=where)
    given = Path(where)
    for directory in (given, data_root() / where):
        if (directory / "engine.toml").is_file():
            return read_engine(directory)
    if given.exists():
        raise JudgeError(f"{where} is no engine directory: it holds no engine.toml", Status.SETUP)
    raise JudgeError(
        f"there is no engine directory {where}; a URL begins with http://, https:// or unix:",
        Status.SETUP,
    )


def read_engine(directory: Path) -> Engine:
    """The engine of a directory. Raises JudgeError that names the file and the key."""
    path = directory / "engine.toml"
    try:
        table = tomllib.loads(path.read_text("utf-8"))
        values = EngineFile.model_validate(table.get("engine", {}))
    except tomllib.TOMLDecodeError as e:
        raise JudgeError(f"{path}: not TOML: {e}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise JudgeError(f"{path} can't be read: {e}") from None
    except ValidationError as e:
        first = e.errors()[0]
        key = ".".join(["engine", *map(str, first["loc"])])
        raise JudgeError(f"{path}: {key}: {first['msg'].lower()}") from None
    unknown = sorted(set(table) - {"engine"})
    if unknown:
        raise JudgeError(f"{path}: unknown table {unknown[0]!r}; there is [engine] only")
    fields = values.model_dump(exclude={"requirements", "command"})
    fields["ready_path"] = values.ready_path or FAMILIES[values.family].ready_path
    return Engine(**fields, directory=directory.resolve(), command=tuple(values.command))
