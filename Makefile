# Every target that needs the environment creates it first. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install demo test test-faults quick data reproduce-all report bench lint clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

$(VENV)/ready: pyproject.toml
	$(PYTHON) -c 'import sys; sys.exit("mcf needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dask,fast,dev]'
	@touch $@

install: $(VENV)/ready  ## create .venv with mcf and its development tools

# Every item with a profile into a folder, then the report, even where a trial failed: the run's exit code counts.
define reproduce
$(BIN)/mcf reproduce --profile $(1) --jobs 0 --out $(2); status=$$?; \
$(BIN)/mcf report --out $(2) && exit $$status
endef

demo: $(VENV)/ready  ## every paper item on built-in data, with the report: about two minutes
	$(call reproduce,smoke,results/demo)

test: $(VENV)/ready  ## run the test suite, two files at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-faults: $(VENV)/ready  ## kill, starve and damage real runs: part of `make test`, about two minutes
	$(BIN)/python -m pytest tests/faults

data: $(VENV)/ready  ## get every data set that can be had; what cannot is replaced and marked
	-$(BIN)/mcf data get --all

quick: data  ## every item on real data with reduced grids: about ten minutes
	$(call reproduce,quick,results/quick)

reproduce-all: data  ## the whole paper at full scale, into results/: two to four hours; the same command resumes
	$(BIN)/mcf reproduce --profile paper --jobs 0 --out results --dry-run
	$(call reproduce,paper,results)

report: $(VENV)/ready  ## tables, figures and report of what is in results/
	$(BIN)/mcf report --out results

lint: $(VENV)/ready  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/ready  ## measure speed and memory, side by side; writes benchmarks/core.json and rivals.json
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.rivals

clean:  ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
