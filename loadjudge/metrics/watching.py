"""A watcher that has the looks at a run exported as well."""

from loadjudge.load.live import ArmView, View, Watcher
from loadjudge.metrics.process import ExporterProcess
from loadjudge.metrics.values import Look


class ExportedWatcher:
    """Shows a run to another watcher and sends each look to the exporting process."""

    def __init__(self, watcher: Watcher, process: ExporterProcess) -> None:
        self._watcher = watcher
        self._process = process

    def show(self, view: View) -> None:
        self._watcher.show(view)
        for arm in (view.stock, view.candidate):
            if arm.active:
                self._process.take(_look(view, arm))

    def line(self, text: str) -> None:
        self._watcher.line(text)

    def close(self) -> None:
        self._watcher.close()
        self._process.close()


def _look(view: View, arm: ArmView) -> Look:
    load = arm.load
    return Look(
        arm=arm.name,
        workload=view.workload,
        number=arm.number,
        lanes=view.lanes,
        in_flight=arm.in_flight,
        turns=view.turns,
        load=None if load is None else (load.in_flight, load.waiting, load.kv_usage),
        counters=arm.counters,
        lag_s=view.lag_s,
        cpu=view.cpu,
    )
