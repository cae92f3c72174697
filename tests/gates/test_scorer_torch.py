"""The torch scorer against forwards computed by hand, on tiny random models."""

import asyncio
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from loadjudge.errors import JudgeError
from loadjudge.gates.scorers.scorer import Refused
from loadjudge.gates.scorers.torch_ import TorchScorer
from loadjudge.gates.terms import terms
from loadjudge.wire.request import Sampling

torch: Any = pytest.importorskip("torch", reason="the extra scorer (torch) is not installed")
transformers: Any = pytest.importorskip(
    "transformers", reason="the extra scorer (transformers) is not installed"
)

V = 211
SAMPLINGS = (Sampling(1.0), Sampling(0.7, 0.9, 20), Sampling(0.8, 0.95), Sampling(0.0))


def llama(**more: Any) -> Any:
    torch.manual_seed(0)
    config = transformers.LlamaConfig(
        vocab_size=V,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=64,
        eos_token_id=[5, 9],
        initializer_range=0.6,
        **more,
    )
    return transformers.LlamaForCausalLM(config).eval()


def gpt2() -> Any:
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        vocab_size=V, n_embd=32, n_layer=2, n_head=4, n_positions=64, initializer_range=0.5
    )
    return transformers.GPT2LMHeadModel(config).eval()


def gemma2() -> Any:
    """Caps its logits behind the output layer."""
    torch.manual_seed(2)
    config = transformers.Gemma2Config(
        vocab_size=V,
        hidden_size=32,
        intermediate_size=48,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=8,
        max_position_embeddings=64,
        final_logit_softcapping=2.0,
        initializer_range=0.6,
    )
    return transformers.Gemma2ForCausalLM(config).eval()


def by_hand_gpt2(model: Any, ids: list[int]) -> np.ndarray:
    """GPT-2's forward in numpy: log-probabilities after each token, [len(ids), V]."""
    w = {name: value.detach().double().numpy() for name, value in model.state_dict().items()}

    def norm(x: np.ndarray, name: str) -> np.ndarray:
        x = (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + 1e-5)
        return x * w[f"{name}.weight"] + w[f"{name}.bias"]

    def dense(x: np.ndarray, name: str) -> np.ndarray:
        return x @ w[f"{name}.weight"] + w[f"{name}.bias"]

    n = len(ids)
    x = w["transformer.wte.weight"][ids] + w["transformer.wpe.weight"][:n]
    for layer in ("transformer.h.0", "transformer.h.1"):
        heads = dense(norm(x, f"{layer}.ln_1"), f"{layer}.attn.c_attn").reshape(n, 3, 4, 8)
        q, k, v = (heads[:, i].transpose(1, 0, 2) for i in range(3))
        scores = q @ k.transpose(0, 2, 1) / np.sqrt(8)
        scores[:, np.triu(np.ones((n, n), bool), 1)] = -np.inf
        share = np.exp(scores - scores.max(-1, keepdims=True))
        share /= share.sum(-1, keepdims=True)
        seen = (share @ v).transpose(1, 0, 2).reshape(n, 32)
        x = x + dense(seen, f"{layer}.attn.c_proj")
        h = dense(norm(x, f"{layer}.ln_2"), f"{layer}.mlp.c_fc")
        h = 0.5 * h * (1 + np.tanh(np.sqrt(2 / np.pi) * (h + 0.044715 * h**3)))
        x = x + dense(h, f"{layer}.mlp.c_proj")
    logits = norm(x, "transformer.ln_f") @ w["lm_head.weight"].T
    top = logits.max(-1, keepdims=True)
    return logits - top - np.log(np.exp(logits - top).sum(-1, keepdims=True))


def replies() -> list[tuple[list[int], list[int]]]:
    rng = np.random.default_rng(0)
    sizes = ((3, 9), (20, 1), (1, 30), (40, 12), (7, 2))
    return [(rng.integers(0, V, a).tolist(), rng.integers(0, V, b).tolist()) for a, b in sizes]


def assert_terms(got: Any, want: Any) -> None:
    for f in fields(want):
        assert getattr(got, f.name) == pytest.approx(getattr(want, f.name), abs=1e-4), f.name


@pytest.mark.parametrize("sampling", SAMPLINGS)
async def test_gpt2_by_hand(sampling: Sampling) -> None:
    model = gpt2()
    scorer = TorchScorer(model, device="cpu", end_ids=(5, 9))
    got = await asyncio.gather(*(scorer.score(p, r, sampling) for p, r in replies()))
    for (prompt, reply), (terms_, exact) in zip(replies(), got, strict=True):
        logp = by_hand_gpt2(model, [*prompt, *reply])[len(prompt) - 1 : -1]
        assert exact
        assert_terms(terms_, terms(logp, None, reply, sampling, (5, 9)))


@pytest.mark.parametrize("make", [llama, gemma2])
@pytest.mark.parametrize("batch_tokens", [1, 60, 10_000])
async def test_batches_give_what_single_forwards_give(make: Any, batch_tokens: int) -> None:
    model = make()
    scorer = TorchScorer(model, device="cpu", end_ids=(5,), batch_tokens=batch_tokens)
    got = await asyncio.gather(*(scorer.score(p, r, SAMPLINGS[1]) for p, r in replies()))
    for (prompt, reply), (terms_, _) in zip(replies(), got, strict=True):
        with torch.inference_mode():
            logits = model(torch.tensor([[*prompt, *reply]])).logits[0]
        logp = logits.log_softmax(-1)[len(prompt) - 1 : -1].double().numpy()
        assert_terms(terms_, terms(logp, None, reply, SAMPLINGS[1], (5,)))


async def test_a_head_that_caps_is_noticed() -> None:
    assert TorchScorer(llama(), device="cpu")._head is not None
    assert TorchScorer(gemma2(), device="cpu")._head is None


async def test_a_directory_is_loaded_as_bfloat16_with_its_own_end_tokens(tmp_path: Path) -> None:
    llama().save_pretrained(tmp_path)
    scorer = TorchScorer(tmp_path, device="cpu")
    assert scorer.end_ids == (5, 9)
    assert scorer._model.dtype == torch.bfloat16
    got, _ = await scorer.score([1, 2, 3], [4, 5], Sampling())
    assert np.isfinite(got.logp).all()
    assert got.is_end.tolist() == [0, 1]


async def test_what_it_can_not_score() -> None:
    scorer = TorchScorer(llama(), device="cpu")
    with pytest.raises(Refused):
        await scorer.score([1, V], [2], Sampling())
    with pytest.raises(Refused):
        await scorer.score([], [2], Sampling())
    with pytest.raises(Refused, match="no room"):
        await scorer.score([1] * 65, [2], Sampling())
    got, _ = await scorer.score([1] * 60, [2] * 10, Sampling())
    assert len(got.logp) == 5
    assert len((await scorer.score([1], [], Sampling()))[0].logp) == 0
    with pytest.raises(JudgeError, match="no model directory"):
        TorchScorer("/none/such")


async def test_a_failing_forward_fails_all_that_wait_and_a_given_up_reply_only_itself() -> None:
    scorer = TorchScorer(llama(), device="cpu")
    kept = asyncio.create_task(scorer.score([1, 2], [3], Sampling()))
    given_up = asyncio.create_task(scorer.score([1, 2], [4], Sampling()))
    first = asyncio.create_task(scorer.score([1, 2], [5], Sampling()))
    await asyncio.sleep(0)
    given_up.cancel()
    assert len((await kept)[0].logp) == len((await first)[0].logp) == 1

    def broken(_batch: Any) -> Any:
        raise RuntimeError("out of memory")

    scorer._forward = broken  # type: ignore[method-assign]
    waiting = [scorer.score([1, 2], [3], Sampling()) for _ in range(3)]
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert [type(r) for r in results] == [JudgeError] * 3
