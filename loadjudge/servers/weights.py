"""Makes a model directory, by the interpreter of an engine's environment.

``python weights.py ACTION SOURCE TARGET [ARGUMENT…]``. It is run, not imported: torch and
transformers are the environment's, and nothing of loadjudge is in it.
"""

import sys
from pathlib import Path
from typing import Any


def gguf(source: str, target: str) -> None:
    """A GGUF file's weights as bfloat16, with its tokenizer."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    folder, file = str(Path(source).parent), Path(source).name
    tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=file)
    model = AutoModelForCausalLM.from_pretrained(
        folder,
        gguf_file=file,
        quantization_config=GgufConfig(dequantize=True),
        dtype=torch.bfloat16,
    )
    _save(model, tokenizer, target)


def hub(source: str, target: str, revision: str) -> None:
    """A repository of the hub, as it is at a commit."""
    from huggingface_hub import snapshot_download

    snapshot_download(source, revision=revision, local_dir=target)


def layers(source: str, target: str, count: str) -> None:
    """The first layers of a model, with its own norm and head."""
    model, tokenizer = _load(source)
    kept = int(count)
    if kept >= model.config.num_hidden_layers:
        sys.exit(f"the model has {model.config.num_hidden_layers} layers, no first {kept} of them")
    model.model.layers = model.model.layers[:kept]
    model.config.num_hidden_layers = kept
    if getattr(model.config, "layer_types", None):
        model.config.layer_types = model.config.layer_types[:kept]
    _save(model, tokenizer, target)


def rounding(source: str, target: str, bits: str, group: str) -> None:
    """Linear weights but the head's, rounded symmetrically in groups of their inputs."""
    import torch

    model, tokenizer = _load(source)
    with torch.no_grad():
        for module in model.model.modules():
            if isinstance(module, torch.nn.Linear):
                module.weight.copy_(rounded(module.weight, int(bits), int(group)))
    _save(model, tokenizer, target)


def rounded(weight: Any, bits: int, group: int) -> Any:
    """A weight [out, in] with each group of ``group`` inputs on 2^bits − 1 steps around 0."""
    steps = 2 ** (bits - 1) - 1
    parts = weight.float().unflatten(1, (-1, group))
    scale = parts.abs().amax(-1, keepdim=True).clamp(min=1e-12) / steps
    return ((parts / scale).round() * scale).flatten(1).to(weight.dtype)


def _load(source: str) -> tuple[Any, Any]:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    model = AutoModelForCausalLM.from_pretrained(source, dtype=torch.bfloat16)
    return model, AutoTokenizer.from_pretrained(source)


def _save(model: Any, tokenizer: Any, target: str) -> None:
    if tokenizer.chat_template is None:
        sys.exit("the model's tokenizer has no chat template")
    model.save_pretrained(target)
    tokenizer.save_pretrained(target)


if __name__ == "__main__":
    action = {f.__name__: f for f in (gguf, hub, layers, rounding)}[sys.argv[1]]
    action(*sys.argv[2:])
