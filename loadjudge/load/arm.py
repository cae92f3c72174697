"""One arm of the comparison: its engine, its endpoint, and how the judge talks to it."""

import os
from dataclasses import dataclass, field
from pathlib import Path

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.http import PlainClient
from loadjudge.record.values import Arm as ArmName
from loadjudge.servers.endpoint import Abilities, ask_abilities
from loadjudge.servers.engine import Engine
from loadjudge.servers.memory import peak_rss_mib
from loadjudge.servers.process import EngineProcess


@dataclass(frozen=True, slots=True)
class Access:
    """How endpoints are reached: the same for both arms."""

    api_key: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    insecure: bool = False
    idle_timeout_s: float = 60.0

    @staticmethod
    def from_environment(
        headers: dict[str, str], insecure: bool, idle_timeout_s: float
    ) -> "Access":
        return Access(os.environ.get("OPENAI_API_KEY"), headers, insecure, idle_timeout_s)


class Arm:
    """An arm with its engine up. ``start`` and ``stop`` are its life."""

    def __init__(
        self, name: ArmName, engine: Engine, model: str | None, access: Access, log: Path
    ) -> None:
        self.name = name
        self.engine = engine
        self._model = model
        self._access = access
        self.process = None if engine.url else EngineProcess(engine, model or "", log)
        self.url = engine.url or (self.process.url if self.process else "")
        self.http = PlainClient(
            self.url, api_key=access.api_key, headers=access.headers, insecure=access.insecure
        )
        self.abilities: Abilities

    async def start(self) -> float:
        """Brings the engine up and asks what it can do; the seconds until it was ready."""
        seconds = await self.process.start() if self.process else 0.0
        self.abilities = await ask_abilities(self.http, self._model, self.engine.family)
        return seconds

    async def stop(self) -> None:
        await self.http.close()
        if self.process:
            await self.process.stop()

    def load_client(self) -> LoadClient:
        return LoadClient(
            self.url,
            api_key=self._access.api_key,
            headers=self._access.headers,
            insecure=self._access.insecure,
            timeouts=Timeouts(
                first_byte_s=self._access.idle_timeout_s, idle_s=self._access.idle_timeout_s
            ),
        )

    def peak_mib(self) -> float | None:
        """Peak resident memory of the engine's processes; None where it isn't ours to see."""
        return peak_rss_mib(self.process.pid) if self.process else None
