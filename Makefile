# Two commands do everything on a fresh machine: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types pytest test-engines bench clean

demo: $(VENV)/installed
	$(BIN)/loadjudge demo

test: lint types pytest

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/mypy

pytest: $(VENV)/installed-dev
	$(BIN)/pytest -m 'not engines'

# The judge on real engines: vLLM on this machine's CPU, installed first where it is missing.
test-engines: $(VENV)/installed-dev
	$(BIN)/loadjudge servers install smollm2-135m
	$(BIN)/pytest -m engines tests/engines --durations 0

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

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
