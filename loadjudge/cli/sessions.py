"""loadjudge sessions: check, convert, stats and generate session files."""

from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from loadjudge.sessions.stats import SessionStats

app = typer.Typer(no_args_is_help=True, help="Check, convert, measure and generate sessions.")

_FORMATS = (
    "auto, openai, sharegpt, spec_bench, vllm_multi_turn, aiperf, mlcommons, swe_agent or custom"
)
_SHOWN_WARNINGS = 5

DatasetFormat = Annotated[
    str, typer.Option("--dataset-format", metavar="FORMAT", help=f"The input's format: {_FORMATS}.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


@app.command()
def check(
    files: Annotated[list[str], typer.Argument(metavar="FILE...", help="Session files.")],
    dataset_format: DatasetFormat = "auto",
    as_json: AsJson = False,
) -> None:
    """Say of each file whether it can be played: sessions, turns and warnings, or the error."""
    from collections import Counter

    import orjson

    from loadjudge.errors import JudgeError
    from loadjudge.sessions.check import session_warnings
    from loadjudge.sessions.read import read_session_file

    failed: int = 0
    for file in files:
        try:
            found = read_session_file(file, dataset_format)
        except JudgeError as error:
            failed = failed or int(error.status)
            report = {"file": file, "ok": False, "error": error.sentence}
            line = f"{file}: {error.sentence}"
        else:
            warnings = [*found.warnings]
            for session in found.sessions:
                warnings += session_warnings(session)
            turns = sum(len(session.turns) for session in found.sessions)
            notes = Counter(note for session in found.sessions for note in session.notes)
            report = {
                "file": file,
                "ok": True,
                "format": found.format,
                "sessions": len(found.sessions),
                "turns": turns,
                "notes": dict(notes),
                "warnings": warnings,
            }
            shown = [f"{note} (in {count})" for note, count in notes.items()]
            shown += warnings[:_SHOWN_WARNINGS]
            if len(warnings) > _SHOWN_WARNINGS:
                shown.append(f"and {len(warnings) - _SHOWN_WARNINGS} more warnings, see --json")
            line = (
                f"{file}: {found.format}, {len(found.sessions)} sessions, {turns} turns, "
                f"{len(warnings)} warnings" + "".join(f"; {text}" for text in shown)
            )
        typer.echo(orjson.dumps(report).decode() if as_json else line)
    if failed:
        raise typer.Exit(failed)


@app.command()
def convert(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A session file.")],
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - is stdout.")],
    dataset_format: DatasetFormat = "auto",
    as_json: AsJson = False,
) -> None:
    """Write a session file of any known format as OpenAI messages, one session a line."""
    import orjson

    from loadjudge.sessions.read import read_session_file
    from loadjudge.sessions.write import write_sessions

    found = read_session_file(file, dataset_format)
    write_sessions(output, found.sessions)
    turns = sum(len(session.turns) for session in found.sessions)
    if as_json:
        report = {
            "file": file,
            "output": output,
            "format": found.format,
            "sessions": len(found.sessions),
            "turns": turns,
            "warnings": found.warnings,
        }
        typer.echo(orjson.dumps(report).decode(), err=output == "-")
        return
    for warning in found.warnings:
        typer.echo(warning, err=True)
    typer.echo(
        f"{output}: {len(found.sessions)} sessions, {turns} turns, from {found.format}", err=True
    )


@app.command()
def stats(
    file: Annotated[str, typer.Argument(metavar="FILE", help="A session file.")],
    dataset_format: DatasetFormat = "auto",
    as_json: AsJson = False,
) -> None:
    """Count a file's sessions, turns, tools and text."""
    import orjson

    from loadjudge.sessions.read import read_sessions
    from loadjudge.sessions.stats import session_stats

    found = session_stats(read_sessions(file, dataset_format))
    if as_json:
        typer.echo(orjson.dumps(found, option=orjson.OPT_INDENT_2).decode())
    else:
        _print_stats(file, found)


@app.command()
def generate(
    output: Annotated[str, typer.Option("--output", "-o", help="Where to write; - is stdout.")],
    seed: Annotated[
        str,
        typer.Option(
            envvar="LOADJUDGE_SESSIONS_SEED",
            show_envvar=True,
            help="The private seed; keep it secret, as whoever has it has the sessions.",
        ),
    ],
    num_sessions: Annotated[int, typer.Option(min=1, help="How many sessions.")] = 40,
    kind: Annotated[str, typer.Option(help="chat, agent or both.")] = "both",
    as_json: AsJson = False,
) -> None:
    """Write new sessions that follow from a private seed: a hidden split."""
    import orjson

    from loadjudge.sessions.generate import SHORT_SEED, commitment, generate_sessions
    from loadjudge.sessions.write import write_sessions

    if len(seed) < SHORT_SEED:
        typer.echo(
            "The seed is short, and could be guessed from the SHA-256 of it that the sessions "
            "carry; take a long random one, such as from openssl rand -hex 16.",
            err=True,
        )
    sessions = generate_sessions(seed, num_sessions, kind)
    write_sessions(output, sessions)
    turns = sum(len(session.turns) for session in sessions)
    if as_json:
        report = {
            "output": output,
            "sessions": len(sessions),
            "turns": turns,
            "seed_sha256": commitment(seed),
        }
        typer.echo(orjson.dumps(report).decode(), err=output == "-")
        return
    typer.echo(
        f"{output}: {len(sessions)} sessions, {turns} turns; seed commitment "
        f"sha256:{commitment(seed)}",
        err=True,
    )


def _print_stats(file: str, found: "SessionStats") -> None:
    from rich.console import Console
    from rich.table import Table

    turns, size = found.turns_per_session, found.characters_per_session
    kinds = ", ".join(f"{count} {kind}" for kind, count in found.kinds.items())
    console = Console(highlight=False)
    console.print(f"{file}: {found.sessions} sessions ({kinds}), {found.turns} turns", markup=False)
    spreads = Table("per session", "min", "median", "p90", "max")
    for name, spread in (("turns", turns), ("characters", size)):
        spreads.add_row(
            name, f"{spread.min:,}", f"{spread.median:,}", f"{spread.p90:,}", f"{spread.max:,}"
        )
    texts = Table("text", "messages", "characters", "tokens (estimate: characters / 4)")
    for name, text in (
        ("system", found.system),
        ("user", found.user),
        ("tool", found.tool),
        ("recorded assistant", found.recorded),
    ):
        texts.add_row(
            name, f"{text.messages:,}", f"{text.characters:,}", f"{text.tokens_estimate:,}"
        )
    for table in (spreads, texts):
        for column in table.columns[1:]:
            column.justify = "right"
        console.print(table)
    if found.sessions_with_tools:
        calls = ", ".join(f"{name} {count}" for name, count in found.tools.items())
        console.print(
            f"{found.sessions_with_tools} sessions with tools; recorded calls: {calls or 'none'}",
            markup=False,
        )
    if found.scripted_wait_s:
        console.print(f"scripted waits: {found.scripted_wait_s:.1f} s in all", markup=False)
    console.print(f"longest session: {found.longest_id}", markup=False)
