"""Engine directories that can't run here: vLLM's own parser takes their commands."""

import json
import subprocess
from pathlib import Path

import pytest

from loadjudge.paths import data_root
from loadjudge.servers.engine import read_engine
from loadjudge.servers.home import home
from loadjudge.servers.kit import Kit
from tests.engines.conftest import Cli

pytestmark = pytest.mark.engines

MODULE = "vllm.entrypoints.openai.api_server"
DIRECTORIES = sorted(
    path.parent
    for path in (data_root() / "servers").glob("*/*/engine.toml")
    if read_engine(path.parent).family == "vllm"
)
PARSE = """
import json, sys
from vllm.entrypoints.launchers.cli_args import make_arg_parser, validate_parsed_serve_args
from vllm.reasoning import ReasoningParserManager
from vllm.tool_parsers import ToolParserManager
from vllm.utils.argparse_utils import FlexibleArgumentParser
found = []
for words in json.load(sys.stdin):
    args = make_arg_parser(FlexibleArgumentParser()).parse_args(words)
    validate_parsed_serve_args(args)
    if args.tool_call_parser:
        ToolParserManager.get_tool_parser(args.tool_call_parser)
    if args.reasoning_parser:
        ReasoningParserManager.get_reasoning_parser(args.reasoning_parser)
    found.append([args.model, args.uds, args.speculative_config])
print(json.dumps(found), file=sys.stderr)
"""


def test_vllms_own_parser_takes_every_command(kit: Kit) -> None:
    engines = [read_engine(directory) for directory in DIRECTORIES]
    words = [e.filled(socket=Path("/s"), port=0, model="") for e in engines]
    given = [some[some.index(MODULE) + 1 :] for some in words]
    python = kit.environment_at(home()) / "bin" / "python"
    done = subprocess.run(
        [str(python), "-c", PARSE],
        input=json.dumps(given),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    parsed = json.loads(done.stderr.splitlines()[-1])
    assert len(parsed) == len(engines)
    for engine, (model, socket, speculation) in zip(engines, parsed, strict=True):
        assert engine.kit is not None
        assert model in engine.kit.places(home()).values()
        assert socket == "/s"
        methods = {"draft": "draft_model"}.get(engine.kind, engine.kind)
        assert (speculation or {}).get("method") == (None if not speculation else methods)
        assert bool(speculation) == (engine.kind in ("ngram", "draft", "eagle3", "mtp"))


@pytest.mark.parametrize("directory", DIRECTORIES, ids=lambda d: f"{d.parent.name}/{d.name}")
def test_a_dry_run_shows_what_would_run(directory: Path, cli: Cli) -> None:
    done = cli("serve", directory, "--dry-run")
    assert done.returncode == 0, done.stderr
    assert "VLLM_SERVER_DEV_MODE=1" in done.stdout
    assert f"-m {MODULE} --model" in done.stdout
    assert "{" not in done.stdout.replace('{"method"', "")
