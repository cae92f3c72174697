"""Reading Prometheus text: one metric at a time, and only its own lines.

A scrape inside a timed window has to be cheap, so nothing else is parsed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

_LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\]|\\.)*)"')


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric, and how its series make one figure.

    ``names``: the first that a text holds; engines have renamed theirs. Series are replicas, which
    add up or, for a share, are averaged. Those that differ in ``copies`` only are ranks of one
    replica that tell the same figure again: the largest counts. ``where`` passes over series that
    carry the label with another value: parts of a total.
    """

    names: tuple[str, ...]
    over: Literal["sum", "mean"] = "sum"
    copies: tuple[str, ...] = ()
    where: tuple[tuple[str, str], ...] = ()


def samples(metrics: str, name: str) -> dict[str, float]:
    """The series of one name: their labels as written to their values, "" where there are none."""
    found: dict[str, float] = {}
    at = -1
    while (at := metrics.find(name, at + 1)) >= 0:
        after = metrics[at + len(name) : at + len(name) + 1]
        if (at > 0 and metrics[at - 1] != "\n") or after not in ("{", " "):
            continue
        end = metrics.find("\n", at)
        line = metrics[at + len(name) : end if end >= 0 else None]
        labels, _, rest = line.rpartition("}") if after == "{" else ("", "", line)
        number = rest.split()
        if number:
            found[labels.removeprefix("{")] = float(number[0])
    return found


def labels_of(written: str) -> dict[str, str]:
    """The labels of a series, from their text between the braces."""
    return dict(_LABEL.findall(written))


def series(metrics: str, metric: Metric) -> dict[str, float]:
    """One value a replica; its key is the same at every scrape. Empty: the text has no such."""
    found = next((s for name in metric.names if (s := samples(metrics, name))), {})
    if not metric.copies and not metric.where:
        return found
    replicas: dict[str, float] = {}
    for written, value in found.items():
        labels = labels_of(written)
        if any(labels.get(label, wanted) != wanted for label, wanted in metric.where):
            continue
        key = ",".join(f"{k}={v}" for k, v in labels.items() if k not in metric.copies)
        replicas[key] = max(value, replicas.get(key, value))
    return replicas


def value(metrics: str, metric: Metric | None) -> float | None:
    """The figure of all replicas; None where the family or the text has none."""
    found = {} if metric is None else series(metrics, metric)
    if metric is None or not found:
        return None
    total = sum(found.values())
    return total / len(found) if metric.over == "mean" else total


def numbers(written: Mapping[str, str], names: tuple[str, ...]) -> list[float] | None:
    """The numbers that an info metric keeps in these labels; None where one is missing or none."""
    try:
        return [float(written[name]) for name in names]
    except (KeyError, ValueError):
        return None
