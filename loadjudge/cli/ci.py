"""What commands tell CI systems beside their own output: JUnit, GitHub, other tools' files."""

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from loadjudge.errors import JudgeError, Status

if TYPE_CHECKING:
    from loadjudge.record.values import RunRecord
    from loadjudge.report.cases import Suite

Junit = Annotated[
    Path | None,
    typer.Option(metavar="FILE.xml", help="Write JUnit XML here: a test case for each verdict."),
]
Github = Annotated[
    bool,
    typer.Option(
        "--github",
        help="For GitHub Actions: annotations, and a summary in $GITHUB_STEP_SUMMARY.",
    ),
]
Export = Annotated[
    tuple[str, Path] | None,
    typer.Option(
        metavar="vllm-bench FILE",
        help="Write results as vllm bench serve does, for each arm and load: FILE, with both in "
        "its name where there are several.",
    ),
]


@dataclass(frozen=True, slots=True)
class Ci:
    """Whom to tell. ``clean_stdout``: standard output is for JSON alone."""

    junit: Path | None
    github: bool
    clean_stdout: bool

    def tell(self, suite: "Suite", summary: str) -> None:
        """Writes what was asked for. ``summary``: Markdown. Raises JudgeError."""
        import os

        from loadjudge.record.files import write_whole
        from loadjudge.report.github import annotations
        from loadjudge.report.junit import junit_xml

        if self.junit is not None:
            write_whole(self.junit, junit_xml(suite))
        if not self.github:
            return
        for line in annotations(suite):
            typer.echo(line, err=self.clean_stdout)  # GitHub reads both streams
        path = os.environ.get("GITHUB_STEP_SUMMARY")
        if path:
            try:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(summary + "\n")
            except OSError as e:
                why = (e.strerror or str(e)).lower()
                raise JudgeError(f"GITHUB_STEP_SUMMARY: {path} can't be written: {why}") from None

    @contextlib.contextmanager
    def telling_failures(self) -> Iterator[None]:
        """A run that ends in an error is told as one, too."""
        from loadjudge.report.cases import error_suite

        try:
            yield
        except JudgeError as error:
            suite = error_suite(error.sentence, error.status)
            # The error itself must be told, whatever comes of telling it elsewhere.
            with contextlib.suppress(JudgeError):
                self.tell(suite, f"## The run failed\n\n```\n{error.sentence}\n```")
            raise


def check_export(export: tuple[str, Path] | None) -> None:
    """Raises JudgeError (usage) for a format that isn't known: before a run, not after."""
    from loadjudge.report.vllmbench import FORMAT

    if export is not None and export[0] != FORMAT:
        raise JudgeError(f"--export knows the format {FORMAT}; not {export[0]!r}", Status.USAGE)


def write_export(export: tuple[str, Path] | None, run: "RunRecord") -> None:
    """Writes the files of ``--export`` and says where they are."""
    import orjson

    from loadjudge.record.files import write_whole
    from loadjudge.report.vllmbench import bench_results, paths_of

    if export is None:
        return
    results = bench_results(run)
    for key, path in paths_of(results, export[1]).items():
        write_whole(path, orjson.dumps(results[key]) + b"\n")
        typer.echo(f"exported {path}", err=True)
