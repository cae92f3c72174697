"""The commands: one module each, thin. Heavy imports wait until a command runs."""

import os
import sys

import typer

from loadjudge import __version__
from loadjudge.cli import (
    compare,
    demo,
    doctor,
    gates,
    judge,
    metrics,
    proxy,
    rejudge,
    report,
    serve,
    servers,
    sessions,
    sweep,
)
from loadjudge.cli.configuring import PREFIX, configurable, name_in_environment
from loadjudge.errors import JudgeError, Status

app = typer.Typer(
    name="loadjudge",
    help="How much faster is a candidate LLM engine under real sessions, "
    "and does it still serve the same model?",
    no_args_is_help=True,
    add_completion=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"auto_envvar_prefix": PREFIX},
    epilog="Exit status: 0 passed, 1 a gate failed or a bound was missed, 2 wrong usage, "
    "3 set-up failed, 4 the run failed or is invalid, 5 inconclusive, "
    "130 interrupted (and resumable).",
)
app.command("demo")(demo.demo)
app.command("judge")(configurable(judge.judge))
app.command("report")(report.report)
app.command("rejudge")(rejudge.rejudge)
app.command("compare")(compare.compare)
app.command("sweep")(configurable(sweep.sweep))
app.command("serve")(serve.serve)
app.command("metrics")(metrics.metrics)
app.command("proxy")(configurable(proxy.proxy))
app.add_typer(servers.app, name="servers")
app.add_typer(sessions.app, name="sessions")
app.add_typer(gates.app, name="gates")
app.command("doctor")(doctor.doctor)


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"loadjudge {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: bool = typer.Option(False, "--version", callback=_version, is_eager=True),
) -> None:
    """Options of every command."""


def main() -> None:
    """Runs a command; errors that a user can meet are one sentence and a status."""
    try:
        command = typer.main.get_command(app)
        name_in_environment(command)
        command()
    except JudgeError as error:
        print(f"loadjudge: {error.sentence}", file=sys.stderr)
        sys.exit(error.status)
    except KeyboardInterrupt:
        print("loadjudge: interrupted", file=sys.stderr)
        sys.exit(Status.INTERRUPTED)
    except BrokenPipeError:
        # Whoever read our output has left (`| head`): no fault, and nobody to tell.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
