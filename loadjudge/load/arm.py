"""One arm of the comparison: its engine, its endpoint, and how the judge talks to it."""

import asyncio
import contextlib
import itertools
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.http import PlainClient
from loadjudge.record.values import Arm as ArmName
from loadjudge.record.values import MemoryKind
from loadjudge.servers.endpoint import Abilities, ask_abilities
from loadjudge.servers.engine import Engine
from loadjudge.servers.keeper import tree_of
from loadjudge.servers.memory import DeviceUse, device_mib, device_use, peak_rss_mib
from loadjudge.servers.process import EngineProcess
from loadjudge.servers.rest import until_at_rest

_DEVICES_EVERY_S = 1.0
_ENDS_WITHIN_S = 30.0
_LOOK_EVERY_S = 0.25


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
    """An arm of the run. ``start`` and ``stop`` are its engine's life, which may be several; its
    address may be another each time."""

    def __init__(
        self, name: ArmName, engine: Engine, model: str | None, access: Access, log: Path
    ) -> None:
        self.name = name
        self.engine = engine
        self._model = model
        self._access = access
        self._log = log
        self._device_peak: float | None = None
        self.unlisted = False  # there are devices, and the driver shows no process of ours there
        self.process: EngineProcess | None = None
        self.up = False
        self.url: str
        self.http: PlainClient
        self.abilities: Abilities

    async def start(self) -> float:
        """Brings the engine up and asks what it can do; the seconds until it was ready."""
        seconds = 0.0
        if not self.engine.url:
            self.process = EngineProcess(self.engine, self._model or "", self._log)
            seconds = await self.process.start()
        self.url = self.engine.url or (self.process.url if self.process else "")
        self.http = PlainClient(
            self.url,
            api_key=self._access.api_key,
            headers=self._access.headers,
            insecure=self._access.insecure,
        )
        self.up = True
        self.abilities = await ask_abilities(self.http, self._model, self.engine.family)
        return seconds

    async def stop(self) -> None:
        if self.up:
            self.up = False
            await self.http.close()
        if self.process is not None:
            await self.process.stop()

    async def healthy(self) -> bool:
        """Whether its engine says that it is ready. One that isn't ours is taken to be."""
        return self.process is None or await self.http.health(self.engine.ready_path)

    async def settled(self) -> None:
        """To be awaited after a call has failed: returns once the engine is healthy again.

        A server whose worker has died answers errors for a while before it ends itself, and its
        end cancels the run. Returns after a while, too, where it is neither well nor dying.
        """
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_ENDS_WITHIN_S):
                while not await self.healthy():  # noqa: ASYNC110 - a server, not an event
                    await asyncio.sleep(_LOOK_EVERY_S)

    async def at_rest(self) -> None:
        """Returns once its engine has stopped spinning, where that is ours to see."""
        if self.up and self.process is not None:
            await until_at_rest(self.process.pid)

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

    def look_at_devices(self, use: Sequence[DeviceUse]) -> None:
        """Takes in what the engine's processes hold of the devices now."""
        if self.up and self.process is not None:
            held = device_mib(use, set(tree_of(self.process.pid)))
            if held is not None:
                self._device_peak = max(held, self._device_peak or 0.0)
            self.unlisted = self._device_peak is None

    def peak(self) -> tuple[float, MemoryKind] | None:
        """Peak memory of the engine's processes so far, in MiB: of devices where the driver lists
        them there, else resident. None where they aren't ours to see."""
        if self._device_peak is not None:
            return self._device_peak, "device"
        resident = peak_rss_mib(self.process.pid) if self.up and self.process else None
        return None if resident is None else (resident, "rss")


async def others_at_rest(arms: Iterable[Arm], playing: Arm) -> None:
    """To be awaited before a pass: no other engine takes the cores that this one needs."""
    for arm in arms:
        if arm is not playing:
            await arm.at_rest()


async def watch_devices(arms: Sequence[Arm]) -> None:
    """Looks at device memory about once a second, in a thread, until cancelled; returns at once
    where there is no device to look at."""

    def look() -> bool:
        use = device_use()
        for arm in arms if use is not None else ():
            arm.look_at_devices(use or ())
        return use is not None

    for _ in itertools.count():
        if not await asyncio.to_thread(look):
            return
        await asyncio.sleep(_DEVICES_EVERY_S)
