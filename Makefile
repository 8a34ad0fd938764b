# Every target that needs the environment creates it first. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install test lint bench clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("mcf needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dask,fast,dev]'
	@touch $@

install: $(VENV)/ready  ## create .venv with mcf and its development tools

test: $(VENV)/ready  ## run the test suite
	$(BIN)/python -m pytest

lint: $(VENV)/ready  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/ready  ## measure speed and memory, side by side; writes benchmarks/core.json
	$(BIN)/python -m benchmarks.core

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
