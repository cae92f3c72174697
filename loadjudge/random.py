"""Seeds: every random choice has its own stream, named, from the run's one seed."""

import hashlib

import numpy as np


def derive(seed: int, *names: object) -> int:
    """A 63-bit seed for the choice that ``names`` name; the same on every machine."""
    text = "\x1f".join([str(seed), *map(str, names)])
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(seed: int, *names: object) -> np.random.Generator:
    """A numpy generator for the choice that ``names`` name."""
    return np.random.default_rng(derive(seed, *names))
