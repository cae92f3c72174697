"""Environments are made once, gone on with after an interrupt, and never half there."""

import fcntl
import os
import subprocess
import sys
import time
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest

from loadjudge.errors import JudgeError, Status
from loadjudge.servers import install as installing
from loadjudge.servers.engine import Engine, read_engine
from loadjudge.servers.environment import is_finished
from loadjudge.servers.install import engines_of, install, missing
from loadjudge.servers.kit import Kit, read_kit


def wheel(folder: Path, name: str, requires: str = "") -> Path:
    """A package of one module, as pip installs it without any index."""
    path = folder / f"{name}-1.0-py3-none-any.whl"
    info = f"{name}-1.0.dist-info"
    needs = f"Requires-Dist: {requires}\n" if requires else ""
    with zipfile.ZipFile(path, "w") as z:
        z.writestr(f"{name}.py", f"word = {name!r}\n")
        z.writestr(
            f"{info}/METADATA", f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n{needs}"
        )
        z.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        z.writestr(f"{info}/RECORD", "")
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("LOADJUDGE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def kit(tmp_path: Path) -> Callable[..., Kit]:
    """A task with one engine, whose packages are wheels in a folder."""

    def write(requirements: str, extra: str = "") -> Kit:
        folder = tmp_path / "task"
        (folder / "stock").mkdir(parents=True, exist_ok=True)
        (folder / "install.toml").write_text(f'[environment]\nremove = ["broken"]\n{extra}')
        (folder / "requirements.txt").write_text(requirements)
        (folder / "stock" / "engine.toml").write_text(
            '[engine]\nname = "mine"\nfamily = "vllm"\ncommand = ["{python}", "{socket}"]\n'
        )
        return read_kit(folder)

    return write


def stock(kit: Kit) -> Engine:
    return read_engine(kit.directory / "stock")


def test_an_environment_is_made_mended_and_found_again(
    tmp_path: Path, home: Path, kit: Callable[..., Kit]
) -> None:
    broken = wheel(tmp_path, "broken")
    made = kit(f"{wheel(tmp_path, 'engine_one', f'broken @ file://{broken}')}\n")
    said: list[str] = []
    assert missing([stock(made)]) == ["the environment of task"]
    install(engines_of(made), said.append)
    python = stock(made).filled(socket=Path("/s"), port=0, model="")[0]
    assert python.startswith(str(home / "environments" / "task-"))
    tried = "import engine_one, importlib.util as u; print(engine_one.word, u.find_spec('broken'))"
    told = subprocess.run([python, "-c", tried], capture_output=True, text=True, check=True)
    assert told.stdout.split() == ["engine_one", "None"]
    assert "uninstalled broken" in "\n".join(said)
    assert missing([stock(made)]) == []
    before = len(said)
    install(engines_of(made), said.append)
    assert len(said) == before


def test_an_installation_that_failed_goes_on_where_it_was(
    tmp_path: Path, home: Path, kit: Callable[..., Kit]
) -> None:
    later = tmp_path / "later-1.0-py3-none-any.whl"
    made = kit(f"{later}\n")
    folder = made.environment_at(home)
    with pytest.raises(
        JudgeError, match=r"installing .*later.* failed \(exit status 1\).*ends:"
    ) as e:
        install([stock(made)], lambda _: None)
    assert e.value.status == Status.SETUP
    assert "later-1.0-py3-none-any.whl" in e.value.sentence.split("ends:")[1]
    assert not is_finished(folder)
    interpreter = (folder / "bin" / "python").lstat().st_ino
    wheel(tmp_path, "later")
    install([stock(made)], lambda _: None)
    assert is_finished(folder)
    assert (folder / "bin" / "python").lstat().st_ino == interpreter


def test_two_installations_wait_for_each_other(home: Path) -> None:
    holds = "import fcntl, sys; f = open(sys.argv[1], 'w'); fcntl.flock(f, fcntl.LOCK_EX); "
    holds += "print('held', flush=True); sys.stdin.read()"
    home.mkdir()
    other = subprocess.Popen(
        [sys.executable, "-c", holds, str(home / "install.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert other.stdin is not None
    assert other.stdout is not None
    other.stdout.readline()
    said: list[str] = []

    def say(text: str) -> None:
        said.append(text)
        other.stdin.close()  # type: ignore[union-attr]

    with installing._alone(say):
        assert other.wait(10) == 0
    other.stdout.close()
    assert said == [f"waiting for another installation in {home}"]


def held(lock: Path) -> bool:
    with lock.open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


def test_what_a_killed_installation_started_holds_its_lock(home: Path, tmp_path: Path) -> None:
    """Else a second pip would work in the same folder as the first one's orphan."""
    script = (
        "import sys; from pathlib import Path; from loadjudge.servers import install;"
        "from loadjudge.servers.environment import call\n"
        "with install._alone(print):\n"
        "    call(['sh', '-c', 'echo on; read line < ' + sys.argv[1]], Path(sys.argv[2]), 'pip')"
    )
    fifo, log = tmp_path / "fifo", tmp_path / "log"
    os.mkfifo(fifo)
    installer = subprocess.Popen([sys.executable, "-c", script, str(fifo), str(log)])
    with fifo.open("w") as line:  # opens when the orphan-to-be reads
        installer.kill()
        installer.wait()
        assert held(home / "install.lock")
        orphan = log.read_text()
        assert orphan == "on\n"
        line.write("end\n")
    for _ in range(1000):
        if not held(home / "install.lock"):
            return
        time.sleep(0.01)  # nothing tells when an orphan has ended
    pytest.fail("the lock is still held")


def test_engines_that_need_a_gpu_are_not_downloaded_without_one(
    home: Path, kit: Callable[..., Kit], monkeypatch: pytest.MonkeyPatch
) -> None:
    made = kit("engine==1\n", "gpu = true\n")
    monkeypatch.setenv("PATH", "/none")
    with pytest.raises(JudgeError, match="need an NVIDIA GPU, and none is seen here"):
        install([stock(made)], lambda _: None)
    assert not os.path.exists(home)
