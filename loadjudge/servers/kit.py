"""What a task's engines need before they can start: ``servers/TASK/install.toml``.

A kit is data: an environment (requirements beside the file) and models by name, each with where
it comes from. Where they lie follows from their recipe, so that a changed recipe is another
folder and two tasks with the same one share it. ``install.py`` makes them.
"""

import hashlib
import json
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from loadjudge.errors import JudgeError
from loadjudge.paths import data_root

FILE = "install.toml"


class Table(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class EnvironmentTable(Table):
    """A virtual environment. ``remove``: what its packages bring along and must not stay."""

    requirements: str = "requirements.txt"  # beside the file; every line pinned
    remove: list[str] = []
    gpu: bool = False  # its engines can't start without one


class Package(Table):
    """Weights that a package of the index ships, as GGUF; made a bfloat16 directory."""

    source: Literal["package"] = Field(alias="from")
    package: str  # pinned, as pip takes it
    file: str  # in the package


class Hub(Table):
    """A model directory of the hub, at one commit."""

    source: Literal["hub"] = Field(alias="from")
    repo: str
    revision: str


class Layers(Table):
    """The first layers of another model of the kit, with its own norm and head: a draft."""

    source: Literal["layers"] = Field(alias="from")
    of: str
    layers: int = Field(ge=1)


class Rounded(Table):
    """Another model of the kit with its linear weights rounded, stored as bfloat16."""

    source: Literal["rounding"] = Field(alias="from")
    of: str
    bits: int = Field(ge=2, le=8)
    group: int = Field(ge=8)


Model = Annotated[Package | Hub | Layers | Rounded, Field(discriminator="source")]


class KitFile(Table):
    environment: EnvironmentTable = EnvironmentTable()
    models: dict[str, Model] = {}
    check: str = "stock"  # the engine directory beside the file that answers one prompt


@dataclass(frozen=True, slots=True)
class Kit:
    """A kit file as read; ``requirements`` are the lines of its requirements file."""

    name: str  # the task's
    directory: Path
    environment: EnvironmentTable
    requirements: tuple[str, ...]
    models: Mapping[str, Model]
    check: str

    def environment_at(self, home: Path, more: Sequence[str] = ()) -> Path:
        """Its environment's folder; ``more`` are requirements of one engine's own."""
        python = [sys.version_info.major, sys.version_info.minor]  # it is made with the judge's own
        recipe = [sorted({*self.requirements, *more}), sorted(self.environment.remove), python]
        return home / "environments" / f"{self.name}-{_digest(recipe)}"

    def model_at(self, home: Path, name: str) -> Path:
        """The folder of one of its models."""
        recipe = [self.models[n].model_dump(mode="json", by_alias=True) for n in self._chain(name)]
        return home / "models" / f"{self.name}-{name}-{_digest(recipe)}"

    def places(self, home: Path, more: Sequence[str] = ()) -> dict[str, str]:
        """What stands for ``{python}``, ``{environment}`` and each model's name."""
        environment = self.environment_at(home, more)
        models = {name: str(self.model_at(home, name)) for name in self.models}
        python = str(environment / "bin" / "python")
        return {"environment": str(environment), "python": python, **models}

    def describe(self, more: Sequence[str] = ()) -> dict[str, Any]:
        """As the record keeps it."""
        return {
            "requirements": [*self.requirements, *more],
            "models": {k: m.model_dump(mode="json", by_alias=True) for k, m in self.models.items()},
        }

    def needed(self, names: Iterable[str]) -> list[str]:
        """These models and what they are made of, each behind what it is made of."""
        found: dict[str, int] = {}
        for name in names:
            chain = list(self._chain(name))
            found |= {n: len(chain) - at for at, n in enumerate(chain)}
        return sorted(found, key=lambda n: (found[n], n))

    def _chain(self, name: str) -> Iterator[str]:
        """A model, what it is made of, and so on."""
        yield name
        model = self.models[name]
        if isinstance(model, Layers | Rounded):
            yield from self._chain(model.of)


def find_kit(task: str) -> Kit:
    """The kit that ``servers install`` names: a task's, a folder's, or one that ships.

    Raises JudgeError.
    """
    for folder in (Path(task), data_root() / "servers" / task):
        if (folder / FILE).is_file():
            return read_kit(folder)
    shipped = sorted(p.parent.name for p in (data_root() / "servers").glob(f"*/{FILE}"))
    raise JudgeError(
        f"nothing is to be installed for {task}: there is no servers/{task}/{FILE}; "
        f"tasks with one are {', '.join(shipped)}"
    )


def kit_beside(directory: Path) -> Kit | None:
    """The kit of an engine directory: in it, or in the folder of its task."""
    for folder in (directory, directory.parent):
        if (folder / FILE).is_file():
            return read_kit(folder)
    return None


def read_kit(folder: Path) -> Kit:
    """The kit of a folder. Raises JudgeError that names the file and the key at fault."""
    path = folder / FILE
    try:
        file = KitFile.model_validate(tomllib.loads(path.read_text("utf-8")))
        listed = folder / file.environment.requirements
        lines = listed.read_text("utf-8").splitlines()
    except tomllib.TOMLDecodeError as e:
        raise JudgeError(f"{path}: not TOML: {e}") from None
    except (OSError, UnicodeDecodeError) as e:
        raise JudgeError(f"{path} or its requirements can't be read: {e}") from None
    except ValidationError as e:
        first = e.errors()[0]
        raise JudgeError(
            f"{path}: {'.'.join(map(str, first['loc']))}: {first['msg'].lower()}"
        ) from None
    for name, model in file.models.items():
        if isinstance(model, Layers | Rounded) and _goes_round(name, file.models):
            raise JudgeError(f"{path}: models.{name}.of: no model of the file leads to {model.of}")
    stripped = (line.partition("#")[0].strip() for line in lines)
    return Kit(
        name=folder.resolve().name,
        directory=folder.resolve(),
        environment=file.environment,
        requirements=tuple(line for line in stripped if line),
        models=file.models,
        check=file.check,
    )


def _goes_round(name: str, models: Mapping[str, Model]) -> bool:
    """Whether what a model is made of is missing, or in the end itself."""
    for _ in models:
        model = models.get(name)
        if model is None:
            return True
        if not isinstance(model, Layers | Rounded):
            return False
        name = model.of
    return True


def _digest(recipe: Any) -> str:
    return hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:10]
