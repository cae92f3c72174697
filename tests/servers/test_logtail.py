"""What is shown of a log: its end, and the error that pages of shutdown have buried."""

from pathlib import Path

from loadjudge.servers.logtail import cause_of, shown, tail_of

# vLLM 0.32.0 whose worker was killed, and whose sampler failed; abridged.
VLLM = """\
(APIServer pid=1) WARNING 11-30 [system_utils.py:255] This can cause fd limit errors like `OSError: [Errno 24] Too many`
(EngineCore pid=2) ERROR 11-30 16:52:15 [multiproc_executor.py:315] Worker proc VllmWorker-0 died unexpectedly (exit code: -9).
(EngineCore pid=2) ERROR 11-30 16:52:15 [core.py:1512] Traceback (most recent call last):
(EngineCore pid=2) ERROR 11-30 16:52:15 [core.py:1512]   File "/v/core.py", line 1496, in run_engine_core
(EngineCore pid=2) ERROR 11-30 16:52:15 [core.py:1512]     engine_core.run_busy_loop()
(EngineCore pid=2) ERROR 11-30 16:52:15 [core.py:1512]     ^^^^^^^^^^^^^^^^^^^^^^^^^^^
(EngineCore pid=2) ERROR 11-30 16:52:15 [core.py:1512] IndexError: index 49152 is out of bounds for dimension 1
(APIServer pid=1) ERROR 11-30 16:52:15 [async_llm.py:906] vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue.
""".splitlines()  # noqa: E501


def test_the_error_is_shown_above_the_pages_of_shutdown() -> None:
    said = shown([*VLLM, *(f" - leaked {n}" for n in range(40))]).splitlines()
    assert "Worker proc VllmWorker-0 died unexpectedly" in said[0]
    assert "IndexError: index 49152" in said[1]
    assert "EngineDeadError" in said[2]
    assert said[3] == "  …"
    assert said[4:] == [f"   - leaked {n}" for n in range(25, 40)]


def test_a_short_log_is_shown_as_it_is() -> None:
    assert shown(VLLM) == "\n".join(f"  {line}" for line in VLLM)
    assert shown([]) == "  (it is empty)"


def test_the_cause_is_the_first_exception(tmp_path: Path) -> None:
    """Later ones follow from it; a warning that names an error is none."""
    log = tmp_path / "log"
    log.write_text("\n".join(VLLM))
    assert cause_of(log) == "IndexError: index 49152 is out of bounds for dimension 1"
    log.write_text("\n".join(VLLM[:2]))
    assert cause_of(log) is None
    log.write_text("fine\nValueError: no\n")
    assert cause_of(log) == "ValueError: no"
    assert cause_of(tmp_path / "none") is None
    assert tail_of(tmp_path / "none") == "(no log)"
