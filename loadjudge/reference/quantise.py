"""A quantised target: the model's tables rounded as quantised weights are, in groups.

Logarithms of the tables' values, which are to this model what weights are to a network, are kept
on a grid of 2^bits levels between the least and the greatest of each group. Zeros stay zeros.
"""

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from loadjudge.reference.model import Model

GROUP = 64  # values that share a grid


def quantised(model: Model, bits: int) -> Model:
    """The model with its tables rounded. What then doesn't sum to 1 is renormalised where the
    model does so anyway, after mixing."""
    tables = tuple(
        replace(table, mass=rounded(table.mass, bits), backoff=rounded(table.backoff, bits))
        for table in model.counts.tables
    )
    bigram = rounded(model.bigram.reshape(-1), bits).reshape(model.bigram.shape)
    return replace(model, counts=replace(model.counts, tables=tables), bigram=bigram)


def rounded(values: NDArray[np.float32], bits: int) -> NDArray[np.float32]:
    """Non-negative values [N], their logarithms rounded to ``bits`` bits in groups."""
    n = len(values)
    grouped = np.zeros((-(-n // GROUP), GROUP), np.float32)
    grouped.reshape(-1)[:n] = values
    known = grouped > 0
    logs = np.log(grouped, where=known, out=np.zeros_like(grouped))
    low = np.where(known, logs, np.inf).min(axis=1, keepdims=True)
    high = np.where(known, logs, -np.inf).max(axis=1, keepdims=True)
    step = np.maximum(high - low, 1e-6) / (2**bits - 1)
    low = np.where(np.isfinite(low), low, 0.0)
    step = np.where(np.isfinite(step), step, 1.0)
    on_grid = np.exp(low + np.round((logs - low) / step) * step)
    return np.asarray(np.where(known, on_grid, 0.0).reshape(-1)[:n], np.float32)
