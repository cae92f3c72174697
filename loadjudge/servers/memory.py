"""Peak memory of an engine: of its whole process tree, draft and workers and all.

On a device it is what NVML says of the tree's processes, looked at now and then. Without one it is
resident memory: the sum of the processes' own peaks (VmHWM), which the kernel keeps, so that
nothing is sampled and no spike is missed. That counts a page that processes share once for each,
and is an upper bound where their peaks fall at different moments; both arms are counted alike.
PSS would share such pages out, but has no peak, and reading it stops the process for as long as it
takes to walk its memory. Neither needs root where the engine runs as the same user.
"""

import functools
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from loadjudge.servers.keeper import tree_of

_MIB = 2**20


@dataclass(frozen=True, slots=True)
class DeviceUse:
    """What one process holds of one device; ``mib`` is None where the driver doesn't say."""

    device: str
    pid: int
    mib: float | None


def peak_rss_mib(leader: int) -> float | None:
    """Peak resident memory of a keeper's tree, in MiB. None if it is gone."""
    total_kib = 0
    for pid in tree_of(leader):
        try:
            status = Path(f"/proc/{pid}/status").read_text()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        for line in status.splitlines():
            if line.startswith("VmHWM:"):
                total_kib += int(line.split()[1])
    return total_kib / 1024 if total_kib else None


def device_mib(use: Iterable[DeviceUse], pids: Collection[int]) -> float | None:
    """What these processes hold of all devices together, in MiB.

    None where the driver lists none of them (they use no device, or it sees them under other
    numbers, as from another pid namespace), or lists one without its memory.
    """
    theirs = [one.mib for one in use if one.pid in pids]
    known = [mib for mib in theirs if mib is not None]
    return sum(known) if known and len(known) == len(theirs) else None


def device_use() -> list[DeviceUse] | None:
    """What each process holds of each NVIDIA device now. None where there is none to ask about.

    A process that both computes and draws is listed twice, with the same figure.
    """
    nvml = _nvml()
    try:
        return None if nvml is None else _listed(nvml)
    except nvml.NVMLError:  # a device that fell off the bus, say: unknown, as without a driver
        return None


def _listed(nvml: Any) -> list[DeviceUse]:
    found: dict[tuple[str, Any, int], DeviceUse] = {}
    for index in range(nvml.nvmlDeviceGetCount()):
        handle = nvml.nvmlDeviceGetHandleByIndex(index)
        device = str(nvml.nvmlDeviceGetUUID(handle))
        for processes in (
            nvml.nvmlDeviceGetComputeRunningProcesses,
            nvml.nvmlDeviceGetGraphicsRunningProcesses,
        ):
            try:
                listed = processes(handle)
            except nvml.NVMLError_NotSupported:
                continue
            for one in listed:
                held = one.usedGpuMemory
                mib = None if held is None else held / _MIB
                part = getattr(one, "gpuInstanceId", None)  # of a device that is split by MIG
                found[device, part, one.pid] = DeviceUse(device, one.pid, mib)
    return list(found.values())


@functools.cache
def _nvml() -> Any:
    """NVML's module, ready; None without the extra ``gpu`` or without a driver."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError:
        return None
    return pynvml
