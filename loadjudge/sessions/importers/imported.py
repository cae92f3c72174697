"""What every importer returns."""

from dataclasses import dataclass

from loadjudge.sessions.model import Session


@dataclass(frozen=True, slots=True)
class Imported:
    """The sessions of a document, and what a user should know about their import."""

    sessions: tuple[Session, ...]
    warnings: tuple[str, ...] = ()


def unknown_keys(name: str, counts: dict[str, int]) -> tuple[str, ...]:
    """The warning about keys that no one reads; none where there are none."""
    if not counts:
        return ()
    listed = ", ".join(f"{key} (in {count})" for key, count in sorted(counts.items()))
    return (f"{name}: unknown keys are ignored: {listed}",)
