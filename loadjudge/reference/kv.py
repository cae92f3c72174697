"""KV blocks: who holds which, and which still hold a known prefix.

As vLLM's: blocks of ``BLOCK`` tokens; a full block is known by the hash of its tokens and of all
before it (and of the request's ``cache_salt``); a block that nobody refers to keeps its content
until it is needed, least recently freed first.
"""

from collections import OrderedDict
from collections.abc import Sequence

BLOCK = 16


def block_hashes(tokens: Sequence[int], salt: str | None, known: Sequence[int] = ()) -> list[int]:
    """Hashes of the full blocks of ``tokens``, going on from the ``known`` first ones."""
    hashes = list(known)
    parent = hashes[-1] if hashes else hash(salt)
    for start in range(len(hashes) * BLOCK, len(tokens) - BLOCK + 1, BLOCK):
        parent = hash((parent, *tokens[start : start + BLOCK]))
        hashes.append(parent)
    return hashes


class BlockPool:
    """``blocks`` blocks. Every block is either referred to or free; a free one may be cached."""

    def __init__(self, blocks: int) -> None:
        self.blocks = blocks
        self._free: OrderedDict[int, None] = OrderedDict((b, None) for b in range(blocks))
        self._references = [0] * blocks
        self._hash: dict[int, int] = {}  # block to hash
        self._cached: dict[int, int] = {}  # hash to block

    @property
    def free(self) -> int:
        """Blocks that can be handed out."""
        return len(self._free)

    @property
    def usage(self) -> float:
        """Share of the blocks referred to."""
        return 1.0 - len(self._free) / self.blocks

    def lookup(self, hashes: Sequence[int]) -> list[int]:
        """Blocks that hold the longest known prefix of ``hashes``; doesn't refer to them."""
        found = []
        for key in hashes:
            block = self._cached.get(key)
            if block is None:
                break
            found.append(block)
        return found

    def claimable(self, blocks: Sequence[int]) -> int:
        """How many of ``blocks`` are free now, and would no longer be after ``share``."""
        return sum(block in self._free for block in blocks)

    def share(self, blocks: Sequence[int]) -> None:
        """Refers to cached blocks."""
        for block in blocks:
            self._free.pop(block, None)
            self._references[block] += 1

    def take(self, count: int) -> list[int]:
        """``count`` blocks, whose old content is forgotten. Raises ``ValueError`` if too few."""
        if count > len(self._free):
            raise ValueError(f"{count} KV blocks wanted, {len(self._free)} free")
        taken = []
        for _ in range(count):
            block, _ = self._free.popitem(last=False)
            key = self._hash.pop(block, None)
            if key is not None:
                del self._cached[key]
            self._references[block] = 1
            taken.append(block)
        return taken

    def publish(self, block: int, key: int) -> None:
        """Makes a full block findable; the first block of a hash stays the one that is found."""
        if key not in self._cached and block not in self._hash:
            self._cached[key] = block
            self._hash[block] = key

    def release(self, blocks: Sequence[int]) -> None:
        """Refers to ``blocks`` no longer; the last goes first, for a prefix serves more."""
        for block in reversed(blocks):
            self._references[block] -= 1
            if self._references[block] == 0:
                self._free[block] = None

    def forget(self) -> bool:
        """Empties the prefix cache; not while a block is referred to, as in vLLM."""
        if len(self._free) < self.blocks:
            return False
        self._hash.clear()
        self._cached.clear()
        return True
