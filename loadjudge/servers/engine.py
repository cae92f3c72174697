"""An engine directory: ``engine.toml`` and whatever its command needs."""

import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadjudge.errors import JudgeError, Status
from loadjudge.paths import data_root
from loadjudge.servers.families import FAMILIES
from loadjudge.servers.home import home
from loadjudge.servers.kit import Kit, kit_beside

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
    requirements: tuple[str, ...] = ()  # beside its kit's
    kit: Kit | None = None  # how its environment and models are made
    ready_path: str = "/health"
    ready_timeout_s: float = 600.0

    def filled(self, *, socket: Path, port: int, model: str) -> list[str]:
        """The command with its places filled in."""
        places = self._places(socket, port, model)
        return [_filled(word, places) for word in self.command]

    def filled_env(self, *, socket: Path, port: int, model: str) -> dict[str, str]:
        """What its command's environment sets, with the same places filled in."""
        places = self._places(socket, port, model)
        return {name: _filled(value, places) for name, value in self.env.items()}

    def models(self) -> list[str]:
        """Models of its kit that it needs, each behind the one that it is made of."""
        if self.kit is None:
            return []
        words = [*self.command, *self.env.values()]
        return self.kit.needed(n for n in self.kit.models if any(f"{{{n}}}" in w for w in words))

    def _places(self, socket: Path, port: int, model: str) -> dict[str, str]:
        return {
            "socket": str(socket),
            "port": str(port),
            "model": model,
            "python": sys.executable,
            "directory": str(self.directory),
            **(self.kit.places(home(), self.requirements) if self.kit else {}),
        }

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
            **({"kit": self.kit.describe(self.requirements)} if self.kit else {}),
        }


def _filled(word: str, places: Mapping[str, str]) -> str:
    for place, value in places.items():
        word = word.replace(f"{{{place}}}", value)
    return word


def find_engine(where: str, kit: Kit | None = None) -> Engine:
    """The engine that ``--candidate`` or ``--stock`` names: a URL or a directory.

    A directory is looked for as given, then among those that ship. ``kit`` is for a directory
    with none of its own: a candidate from elsewhere runs in its task's environment. Raises
    JudgeError.
    """
    if where.startswith(("http://", "https://", "unix:")):
        return Engine(name=where, family=None, url=where)
    given = Path(where)
    for directory in (given, data_root() / where):
        if (directory / "engine.toml").is_file():
            return read_engine(directory, kit)
    if given.exists():
        raise JudgeError(f"{where} is no engine directory: it holds no engine.toml", Status.SETUP)
    raise JudgeError(
        f"there is no engine directory {where}; a URL begins with http://, https:// or unix:",
        Status.SETUP,
    )


def read_engine(directory: Path, kit: Kit | None = None) -> Engine:
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
    return Engine(
        **fields,
        directory=directory.resolve(),
        command=tuple(values.command),
        requirements=tuple(values.requirements),
        kit=kit_beside(directory.resolve()) or kit,
    )
