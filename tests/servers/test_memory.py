"""Device memory from what the driver lists; only NVML itself is made up here."""

from types import SimpleNamespace
from typing import Any

import pytest

from loadjudge.servers import memory
from loadjudge.servers.memory import DeviceUse, device_mib, device_use

MIB = 2**20
# As on a node with two H200: an engine of two workers with its draft in one of them, another
# user's notebook, and a display server.
USE = [
    DeviceUse("GPU-5f1c", 4100, 71_232.0),
    DeviceUse("GPU-5f1c", 7, 4.0),
    DeviceUse("GPU-5f1c", 9000, 1_830.0),
    DeviceUse("GPU-9e02", 4101, 70_118.0),
]


def test_an_engine_holds_what_its_tree_holds_on_all_devices() -> None:
    assert device_mib(USE, {4000, 4100, 4101}) == 141_350
    assert device_mib(USE, [9000]) == 1_830


def test_an_engine_that_the_driver_does_not_list_is_unknown_and_not_empty() -> None:
    assert device_mib(USE, {4000}) is None
    assert device_mib([], {4100}) is None


def test_a_process_without_a_figure_makes_the_sum_unknown() -> None:
    assert device_mib([*USE, DeviceUse("GPU-9e02", 4102, None)], {4101, 4102}) is None


class FakeError(Exception):
    pass


class FakeNotSupported(FakeError):
    pass


class Nvml:
    """NVML as the module pynvml has it."""

    NVMLError = FakeError
    NVMLError_NotSupported = FakeNotSupported

    def __init__(self, compute: list[list[Any]], graphics: list[list[Any]] | None = None) -> None:
        self._compute, self._graphics = compute, graphics

    def nvmlDeviceGetCount(self) -> int:
        return len(self._compute)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> int:
        return index

    def nvmlDeviceGetUUID(self, handle: int) -> str:
        return f"GPU-{handle}"

    def nvmlDeviceGetComputeRunningProcesses(self, handle: int) -> list[Any]:
        return self._compute[handle]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: int) -> list[Any]:
        if self._graphics is None:
            raise FakeNotSupported
        return self._graphics[handle]


def listed(pid: int, mib: float | None, part: int = 0xFFFFFFFF) -> Any:
    held = None if mib is None else int(mib * MIB)
    return SimpleNamespace(pid=pid, usedGpuMemory=held, gpuInstanceId=part)


def test_a_process_that_computes_and_draws_is_counted_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    nvml = Nvml([[listed(1, 100.0)], [listed(1, 50.0)]], [[listed(1, 100.0), listed(2, 8)], []])
    monkeypatch.setattr(memory, "_nvml", lambda: nvml)
    use = device_use()
    assert use is not None
    assert device_mib(use, {1}) == 150
    assert device_mib(use, {1, 2}) == 158


def test_the_parts_of_a_split_device_add_up(monkeypatch: pytest.MonkeyPatch) -> None:
    nvml = Nvml([[listed(1, 100.0, part=1), listed(1, 30.0, part=2), listed(2, None, part=2)]])
    monkeypatch.setattr(memory, "_nvml", lambda: nvml)
    use = device_use()
    assert use is not None
    assert device_mib(use, {1}) == 130
    assert device_mib(use, {1, 2}) is None


def test_a_driver_that_fails_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    class Lost(Nvml):
        def nvmlDeviceGetUUID(self, handle: int) -> str:
            raise FakeError("GPU is lost")

    monkeypatch.setattr(memory, "_nvml", lambda: Lost([[]]))
    assert device_use() is None
    monkeypatch.setattr(memory, "_nvml", lambda: None)
    assert device_use() is None
