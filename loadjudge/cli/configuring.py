"""``--config FILE.toml`` and ``--print-config`` of a command: built on its own parameters.

A flag of the command line comes before its environment variable (LOADJUDGE_COMMAND_FLAG), that
before the file, the file before the default. Typer knows all four; here the file is read, checked
and laid under, and what came of it is printed.
"""

import functools
import inspect
import os
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from loadjudge.errors import JudgeError, Status

_OWN = ("config", "print_config")
PREFIX = "LOADJUDGE"


def configurable(command: Callable[..., None]) -> Callable[..., None]:
    """The command with ``--config`` and ``--print-config``."""
    signature = inspect.signature(command, eval_str=True)
    added = {
        "config": Annotated[
            Path | None,
            typer.Option(
                "--config",
                metavar="FILE.toml",
                is_eager=True,
                callback=_read,
                help="Values of these flags, one a line: seed = 1. Flags and "
                f"{PREFIX}_{command.__name__.upper()}_FLAG in the environment come before them.",
            ),
        ],
        "print_config": Annotated[
            bool,
            typer.Option(
                "--print-config", help="Print the values in effect as such a file, and end."
            ),
        ],
        "context": typer.Context,
    }
    defaults: dict[str, Any] = {"config": None, "print_config": False}

    @functools.wraps(command)
    def with_configuration(**values: Any) -> None:
        context: typer.Context = values.pop("context")
        values.pop("config")
        if values.pop("print_config"):
            typer.echo(printed(context), nl=False)
            return
        command(**values)

    parameters = [
        *signature.parameters.values(),
        *(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=defaults.get(name, inspect.Parameter.empty),
                annotation=annotation,
            )
            for name, annotation in added.items()
        ),
    ]
    with_configuration.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_configuration.__annotations__ = {p.name: p.annotation for p in parameters}
    return with_configuration


def name_in_environment(command: Any, prefix: str = PREFIX) -> None:
    """Names the environment variable of every flag below a command: LOADJUDGE_JUDGE_NUM_SESSIONS.

    Typer names them by parameters; where a flag is called otherwise, this one wins. The names are
    not repeated at every flag in the help.
    """
    commands = getattr(command, "commands", {})
    for option in command.params if commands else ():
        # A group has nothing to configure, and LOADJUDGE_VERSION may well mean something else.
        option.allow_from_autoenv = False
    for name, inner in commands.items():
        below = f"{prefix}_{name}".upper().replace("-", "_")
        name_in_environment(inner, below)
        for option in inner.params:
            if option.param_type_name == "option" and option.envvar is None:
                key = _key(option).upper().replace("-", "_")
                if key != option.name.upper():
                    option.envvar = f"{below}_{key}"
                option.show_envvar = False


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Lays a file's values under the command's own. Raises JudgeError (usage) for a bad one."""
    if path is None or context.resilient_parsing:
        return path
    import tomllib

    try:
        table = tomllib.loads(path.read_text("utf-8"))
    except tomllib.TOMLDecodeError as e:
        raise JudgeError(f"{path}: not TOML: {e}", Status.USAGE) from None
    except (OSError, UnicodeDecodeError) as e:
        why = e.strerror.lower() if isinstance(e, OSError) and e.strerror else str(e)
        raise JudgeError(f"{path} can't be read: {why}", Status.USAGE) from None
    options = _options(context)
    known = {_key(option): option for option in options}
    values: dict[str, Any] = {}
    for key, value in table.items():
        option = known.get(key.replace("_", "-"))
        if option is None:
            raise JudgeError(f"{path}: {_unknown(key, list(known))}", Status.USAGE)
        values[option.name] = _value(context, option, value, f"{path}: {key}")
    context.default_map = {**(context.default_map or {}), **values}
    return path


def _unknown(key: str, known: list[str]) -> str:
    import difflib

    near = difflib.get_close_matches(key.replace("_", "-"), known, 1)
    return f"unknown key {key!r}" + (f"; is {near[0]!r} meant?" if near else "")


def _value(context: typer.Context, option: Any, value: Any, where: str) -> Any:
    """A value of the file, tried as the option takes it. Raises JudgeError (usage)."""
    flag = bool(option.is_flag)
    several = bool(option.multiple) or option.nargs != 1
    if isinstance(value, dict):
        raise JudgeError(f"{where}: a table is no value of a flag", Status.USAGE)
    if flag != isinstance(value, bool):
        wanted = "true or false" if flag else _wanted(several)
        raise JudgeError(f"{where}: takes {wanted}, not {_shown(value)}", Status.USAGE)
    if isinstance(value, list) != several:
        raise JudgeError(f"{where}: takes {_wanted(several)}, not {_shown(value)}", Status.USAGE)
    # As text, as on the command line: then the option's own type says what is wrong with it.
    given = [_text(v) for v in value] if several else value if flag else _text(value)
    try:
        option.process_value(context, given)
    except (typer.BadParameter, ValueError) as e:
        why = getattr(e, "message", str(e)).rstrip(".")
        raise JudgeError(f"{where}: {why[:1].lower()}{why[1:]}", Status.USAGE) from None
    return given


def _wanted(several: bool) -> str:
    return 'a list, as in ["one", "two"]' if several else "one value"


def _text(value: Any) -> Any:
    """A file's value as a word of the command line; a list within a list is several words."""
    return tuple(_text(v) for v in value) if isinstance(value, list) else str(value)


def printed(context: typer.Context) -> str:
    """The configuration in effect as TOML; what is not set stands there as a comment."""
    lines = [f"# {context.command_path}: flag, else environment, else file, else default"]
    for option in _options(context):
        value = context.params.get(option.name)
        source = context.get_parameter_source(option.name)
        said = {"COMMANDLINE": "flag", "ENVIRONMENT": "environment", "DEFAULT_MAP": "file"}
        origin = said.get(source.name if source else "", "")
        if value is None or value == () or value == []:
            lines.append(f"# {_key(option)} is not set")
        else:
            lines.append(f"{_key(option)} = {_shown(value)}" + (f"  # {origin}" if origin else ""))
    return "\n".join(lines) + "\n"


def _options(context: typer.Context) -> list[Any]:
    """The command's own options, in their order."""
    return [
        parameter
        for parameter in context.command.params
        if parameter.param_type_name == "option"
        and parameter.name not in (*_OWN, "help")
        and parameter.expose_value
    ]


def _key(option: Any) -> str:
    """An option's long name: ``as_json`` is ``json``."""
    return str(next(o for o in option.opts if o.startswith("--"))).removeprefix("--")


def _shown(value: Any) -> str:
    """A value as TOML."""
    import json

    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{', '.join(_shown(v) for v in value)}]"
    # TOML's basic strings are JSON's, but for surrogates and the delete character.
    return json.dumps(os.fspath(value) if isinstance(value, Path) else str(value),
                      ensure_ascii=False).replace("\x7f", "\\u007f")  # fmt: skip
