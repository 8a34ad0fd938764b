# Every target that needs the environment creates it first. `make help` lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.DEFAULT_GOAL := help
.PHONY: help install lock demo smoke test test-wheel test-faults test-bounds quick data reproduce-all report bench docs article image lint hooks clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-16s %s\n", $$1, $$2}'

# Two environments in one folder: what mcf needs, then the tools to work on it. Both come from a lock file, with
# exact versions and hashes, so that a run can be repeated to the digit.
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
EXTRAS := --extra fast --extra report
DEV_EXTRAS := $(EXTRAS) --extra dask --extra docs --extra dev

$(VENV)/ready: requirements.lock
	$(PYTHON) -c 'import sys; sys.exit("mcf needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)
	$(PIP) --require-hashes -r requirements.lock
	$(PIP) --no-deps -e .
	@touch $@

$(VENV)/dev-ready: requirements-dev.lock $(VENV)/ready
	$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

install: $(VENV)/dev-ready  ## create .venv with mcf and its development tools

lock: $(VENV)/ready  ## renew both lock files from the bounds in pyproject.toml
	$(PIP) uv
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK) $(EXTRAS) -o requirements.lock pyproject.toml
	$(BIN)/uv pip compile --quiet --upgrade $(LOCK) $(DEV_EXTRAS) -c requirements.lock -o requirements-dev.lock pyproject.toml

LOCK := --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links \
	--custom-compile-command 'make lock'

# Every item with a profile into a folder, then the report, even where a trial failed: the run's exit code counts.
define reproduce
$(BIN)/mcf reproduce --profile $(1) --jobs 0 --out $(2); status=$$?; \
$(BIN)/mcf report --out $(2) && exit $$status
endef

README := $(BIN)/python docs/readme.py
DEMO := --jobs 0 --out results/demo

demo: $(VENV)/ready  ## a sweep over q, digits with lost pixels, a comparison, and their page: about a minute, built-in data
	$(BIN)/mcf sweep-q $(DEMO) --set title="How much corruption to train with"
	$(BIN)/mcf nightmare $(DEMO) --set title="The nightmare at test time"
	$(BIN)/mcf compare $(DEMO) --set title="Which corruption suits the data"
	$(BIN)/mcf report --out results/demo

smoke: $(VENV)/ready  ## every item of the paper on built-in data, with the report: about two minutes
	$(call reproduce,smoke,results/smoke)

test: $(VENV)/dev-ready  ## run the test suite, two files at a time
	$(BIN)/python -m pytest -n 2 --dist loadfile

test-wheel: $(VENV)/dev-ready  ## build the wheel and use it in an empty environment
	$(BIN)/python -m pytest -m wheel tests/test_wheel.py

test-faults: $(VENV)/dev-ready  ## kill, starve and damage real runs: part of `make test`, about two minutes
	$(BIN)/python -m pytest tests/faults

# Compiled anew, into a folder of its own: loops cached elsewhere do not check bounds. Every loop has a test with wrong
# arguments in test_gate, and fits or passes that reach it in these files. The other files of tests/core are left out:
# most of their tables are too small for a compiled loop (2^14 entries), and the few large ones (tests of stopping and of
# cross-validation) reach loops that are reached here. Of test_bounds one test reaches the loops of the variational bound.
BOUNDS := tests/core/test_gate.py tests/core/test_kernels.py tests/core/test_design.py tests/core/test_scale.py \
	tests/core/test_newton.py tests/core/test_solvers.py tests/core/test_losses.py tests/core/test_plain.py \
	tests/core/test_chunks.py tests/core/test_groups.py tests/core/test_stress.py tests/core/test_stability.py \
	tests/core/test_corruptions.py tests/core/test_estimators.py tests/core/test_expected.py tests/baselines/test_fdrop.py \
	tests/core/test_bounds.py::test_compiled_rows_of_the_variational_bound_are_those_of_numpy

test-bounds: $(VENV)/dev-ready  ## the tests of compiled loops with every index checked: about five minutes
	cache=$$(mktemp -d) && trap 'rm -rf "$$cache"' EXIT && NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$$cache \
	$(BIN)/python -m pytest -n 2 --dist loadfile -k 'not compliance' $(BOUNDS)

data: $(VENV)/ready  ## get every available data set; missing ones are replaced, and marked
	-$(BIN)/mcf data get --all

quick: data  ## every item on real data with reduced grids: about ten minutes
	$(call reproduce,quick,results/quick)

reproduce-all: data  ## the whole paper at full scale, into results/, then our own items: two to four hours; the same command resumes
	($(call reproduce,paper,results)); status=$$?; \
	$(BIN)/mcf reproduce --beyond --jobs 0 || status=$$?; \
	$(README) && exit $$status

report: $(VENV)/ready  ## write tables, figures and the report from results/, and the README's paragraph
	$(BIN)/mcf report --out results
	$(README)

docs: $(VENV)/dev-ready  ## the documentation site, into docs/_build; a warning is an error
	$(BIN)/python -m sphinx -q -W --keep-going -b html docs docs/_build

# pandoc or a browser makes the PDF; without either the page of the site is the article.
article: docs  ## the article as docs/_build/article.pdf, where pandoc with LaTeX or Chromium is installed
	@if command -v pandoc >/dev/null && command -v xelatex >/dev/null; then \
	  pandoc --pdf-engine=xelatex -V geometry:margin=25mm results/article.md -o docs/_build/article.pdf; \
	elif browser=$$(command -v chromium || command -v chromium-browser || command -v google-chrome); then \
	  "$$browser" --headless --no-sandbox --disable-gpu --no-pdf-header-footer \
	    --print-to-pdf=docs/_build/article.pdf docs/_build/article.html 2>/dev/null; \
	else echo "No PDF: neither pandoc with xelatex nor Chromium is installed. The article is docs/_build/article.html."; exit 0; fi && \
	echo "Written to docs/_build/article.pdf"

image:  ## lint the Dockerfile with hadolint and build the container, where either can be had
	@if command -v hadolint >/dev/null; then hadolint Dockerfile && echo "Linted: hadolint finds nothing."; \
	else echo "Not linted: hadolint is not installed."; fi
	@if ! command -v docker >/dev/null; then echo "Not built: docker is not installed."; \
	elif ! docker info >/dev/null 2>&1; then echo "Not built: no container engine answers (docker info)."; \
	else docker build -t mcf .; fi

lint: $(VENV)/dev-ready  ## ruff and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

hooks: $(VENV)/dev-ready  ## run the linters on every commit
	$(BIN)/pre-commit install

bench: $(VENV)/dev-ready  ## measure speed and memory, side by side; writes benchmarks/core.json and rivals.json
	$(BIN)/python -m benchmarks.core
	$(BIN)/python -m benchmarks.rivals

clean:  ## remove the environment and caches
	rm -rf $(VENV) docs/_build docs/generated docs/gallery .pytest_cache .mypy_cache .ruff_cache .hypothesis
