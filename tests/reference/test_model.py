"""The model's distributions, against their definition, and the replies that come of them."""

import numpy as np
import pytest

from loadjudge.reference import store
from loadjudge.reference.chat import ReplyParser, render
from loadjudge.reference.corpus import Corpus, token_streams
from loadjudge.reference.history import History
from loadjudge.reference.model import DRAFT, Model, Shape
from loadjudge.reference.sampling import Sampling
from loadjudge.reference.scheduler import Request, Scheduler
from loadjudge.reference.tokenizer import ARGS, CALL, END, ENDCALL

from . import slow
from .conftest import TOOLS


def _dialogue(model: Model) -> list[int]:
    """A prompt and a reply with a call, which has seen every place of the grammar."""
    messages = [
        {"role": "system", "content": "You help at the harbour office."},
        {"role": "user", "content": "Where is parcel P-3? And when does boat 7 leave on Monday?"},
        {"role": "assistant", "content": "Boat 7 leaves on Monday at 7."},
        {"role": "user", "content": "Boat 7 leaves on Monday at 7, you say. And the parcel?"},
    ]
    encode = model.tokenizer.encode
    call = [CALL, *encode("send_parcel"), ARGS, *encode('{"parcel": "P-3"}'), ENDCALL]
    reply = [*encode("It leaves from the old pier at 7. Boat 7 leaves"), *call, *call, END]
    return render(model.tokenizer, messages, TOOLS) + reply


@pytest.mark.parametrize("shape", [Shape(), DRAFT, Shape(hazard_from=3, hazard_span=9.0)])
def test_equals_the_slow_model_everywhere(model: Model, corpus: Corpus, shape: Shape) -> None:
    model = store.with_shape(model, shape)
    counts = slow.count(list(token_streams(corpus, model.tokenizer)))
    ids = _dialogue(model)
    for first, block in model.score(ids):
        for row, p in enumerate(block):
            expected = slow.distribution(counts, ids[: first + row], shape, model.tokenizer.size)
            np.testing.assert_allclose(p, expected, rtol=2e-4, atol=1e-8)


def test_rows_sum_to_one_and_do_not_depend_on_the_batch(model: Model) -> None:
    ids = _dialogue(model)
    history = History()
    for first, block in model.score(ids):
        np.testing.assert_allclose(block.sum(axis=1), 1.0, atol=1e-5)
        for row, p in enumerate(block):
            while len(history.tokens) < first + row:
                history.push(ids[len(history.tokens)])
            np.testing.assert_array_equal(model.distributions([history.query()])[0], p)


def test_pushed_tokens_popped_leave_no_trace(model: Model) -> None:
    ids = _dialogue(model)
    history = History(ids[:60])
    before = history.query()
    for token in ids[60:]:
        history.push(token)
    assert history.query() == History(ids).query()
    for _ in ids[60:]:
        history.pop()
    assert history.query() == before
    history.push(ids[60])
    assert history.query() == History(ids[:61]).query()


def test_names_are_always_those_of_the_tools(model: Model) -> None:
    replies = _replies(model, TOOLS, 60)
    names = [name for reply in replies for name, _ in reply.calls]
    assert len(names) > 15
    assert set(names) <= {"find_parcel", "send_parcel"}


def test_without_tools_nothing_is_called(model: Model) -> None:
    assert not any(reply.calls for reply in _replies(model, [], 40))


def test_replies_end_by_themselves_and_vary(model: Model) -> None:
    lengths = [len(model.tokenizer.encode(r.content)) for r in _replies(model, [], 60)]
    assert max(lengths) < 200
    assert np.std(lengths) > 5


def _replies(model: Model, tools: list[dict[str, object]], n: int) -> list[ReplyParser]:
    messages = [{"role": "user", "content": "Where is parcel P-5 and when does boat 5 leave?"}]
    prompt = tuple(render(model.tokenizer, messages, tools))
    scheduler = Scheduler(model)
    parsers = {}
    for seed in range(n):
        scheduler.add(Request(str(seed), prompt, Sampling(), seed, max_tokens=256))
        parsers[str(seed)] = ReplyParser(model.tokenizer)
    while scheduler.has_work():
        for output in scheduler.step().outputs:
            parsers[output.id].feed(output.tokens, last=output.finish is not None)
            assert output.finish != "length"
    return list(parsers.values())


def test_the_cache_gives_back_the_same_model(
    model: Model, corpus: Corpus, tmp_path: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    built, cached = store.cached_model(corpus), store.cached_model(corpus)
    assert built.tokenizer.pieces == cached.tokenizer.pieces == model.tokenizer.pieces
    np.testing.assert_array_equal(built.bigram, cached.bigram)
    for a, b in zip(built.counts.tables, cached.counts.tables, strict=True):
        np.testing.assert_array_equal(a.mass, b.mass)


def test_a_broken_cache_is_built_anew(
    corpus: Corpus, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder))
    store.cached_model(corpus)
    (file,) = (folder / "loadjudge").iterdir()
    file.write_bytes(file.read_bytes()[:1000])
    assert store.cached_model(corpus).tokenizer.size > 256
