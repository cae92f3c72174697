"""The n-gram engine's plugin against vLLM's own kernel, in the engines' environment."""

import subprocess
from pathlib import Path

import pytest

from loadjudge.servers.home import home
from loadjudge.servers.kit import Kit
from tests.engines.conftest import ENGINES

pytestmark = pytest.mark.engines

EXPAND = """
import torch
from importlib.metadata import entry_points
from vllm.platforms import current_platform
from vllm.utils import cpu_triton_utils
current_platform.import_kernels()
def filled(dtype):
    output = torch.full((6,), 7, dtype=dtype)
    values = torch.tensor([3, -1, 5], dtype=dtype)
    # Requests with two, none and four draft tokens.
    ends = torch.tensor([2, 2, 6], dtype=torch.int32)
    cpu_triton_utils._expand_kernel_impl(output, values, ends, 3, 9, MAX_NUM_TOKENS=32)
    return output.tolist()
print(filled(torch.float32), filled(torch.int32), sep="|")
(plugin,) = [p for p in entry_points(group="vllm.general_plugins") if p.name == "expand_kernel"]
plugin.load()()
print(filled(torch.float32), filled(torch.int32), filled(torch.int64), sep="|")
"""


def test_the_plugin_expands_what_vllms_own_kernel_does_not(kit: Kit) -> None:
    """Where the first line fails vLLM has mended issue 55005, and the plugin can go."""
    plugin = ENGINES / "ngram" / "plugin"
    done = subprocess.run(
        [str(kit.environment_at(home()) / "bin" / "python"), "-c", EXPAND],
        env={"PYTHONPATH": str(plugin), "PATH": "/usr/bin:/bin", "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    own, ours = [line.split("|") for line in done.stdout.splitlines() if line.startswith("[")]
    assert own == [str([7.0] * 6), str([7] * 6)]
    wanted = [9, 9, 5, 5, 5, 5]
    assert ours == [str([float(w) for w in wanted]), str(wanted), str(wanted)]
