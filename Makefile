# The two commands of the README are `make quickstart` and `make test`; everything lives in .venv.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check

.PHONY: help quickstart test lint bench clean

help:  ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

quickstart: .venv/installed-cpu  ## Install into .venv and run scenarios/quickstart.yaml
	$(BIN)/dlbench run scenarios/quickstart.yaml

test: .venv/installed-test lint  ## Run lint, types and all tests
	$(BIN)/python -m pytest

lint: .venv/installed-test  ## Run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/installed-test  ## Measure dlbench's own cost in interleaved pairs (half an hour; keep the machine quiet)
	$(BIN)/python -m tests.bench

clean:  ## Remove the environment and what tools left
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache build dlbench.egg-info

.venv/installed-cpu: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install --constraint constraints.txt --editable '.[cpu]'
	@touch $@

.venv/installed-test: pyproject.toml constraints.txt | .venv/bin/python
	$(PIP) install --constraint constraints.txt --editable '.[cpu,test]'
	@touch $@ .venv/installed-cpu

# Each check names what is missing and the command that mends it.
.venv/bin/python:
	@command -v $(PYTHON) >/dev/null || { echo "dlbench: $(PYTHON) is missing; mend it with: sudo apt-get install python3 python3-venv" >&2; exit 2; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "dlbench: $$($(PYTHON) --version) is too old, 3.11 or newer is needed; mend it with: sudo apt-get install python3.11-venv && make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@$(PYTHON) -c 'import venv, ensurepip' 2>/dev/null || { echo "dlbench: Python's venv module is missing; mend it with: sudo apt-get install python$$($(PYTHON) -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv" >&2; exit 2; }
	@$(PYTHON) -c 'import platform, sys; sys.exit(sys.platform != "linux" or platform.machine() not in ("x86_64", "aarch64"))' || echo "dlbench: proven on Linux x86_64 only; going on" >&2
	$(PYTHON) -m venv .venv
