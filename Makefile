# The two commands of the README are `make quickstart` and `make test`; everything lives in .venv.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
BIN := .venv/bin
SAY := echo "dlbench:"
# No compiler is used here: what has no wheel for this Python is refused at once. Horovod has none: see docker/.
INSTALL := $(BIN)/python -m pip --disable-pip-version-check install --no-user --only-binary :all: \
	--constraint constraints.txt

# Two pips in one environment would spoil it, and runs are measured one at a time: no -j here.
.NOTPARALLEL:
# What others set for their own Python would reach into .venv or lead pip out of it.
unexport PYTHONHOME PYTHONPATH PYTHONSTARTUP PIP_USER PIP_TARGET PIP_PREFIX PIP_ROOT PIP_REQUIRE_VIRTUALENV

# `.venv/made-for` names the folder the environment was made for; "unfinished" stands there while pip is at work.
# Where it says anything else than this folder, an earlier call was interrupted or the folder was moved or copied
# (scripts in .venv hold absolute paths): the environment is made anew. One that you made yourself has no such file.
define is-sound
	[[ -x .venv/bin/python ]] && { [[ ! -e .venv/made-for ]] || [[ "$$(<.venv/made-for)" == "$$(pwd -P)" ]]; } && echo yes
endef
ifneq ($(shell $(is-sound)),yes)
.PHONY: .venv/bin/python .venv/installed-cpu .venv/installed-test .venv/installed-horovod
endif

.PHONY: help quickstart horovod check test soak bench results clean

help:  ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

quickstart: .venv/installed-cpu  ## Install into .venv and run scenarios/quickstart.yaml
	$(BIN)/dlbench run scenarios/quickstart.yaml

horovod: .venv/installed-horovod  ## Build Horovod, install it into .venv and prove it (needs g++ and make)

check: .venv/installed-test  ## Run lint, types and unit tests but those of charts: about two minutes on two slow cores
	@$(BIN)/python -m tests.parts lint format types imports quick

test: .venv/installed-test .venv/installed-horovod  ## Run all checks and tests: fourteen to eighteen minutes on two slow cores
	@$(BIN)/python -m tests.parts

soak: .venv/installed-test .venv/installed-horovod  ## Run the long campaigns, hours of them, and write their tables to results (root)
	$(BIN)/python -m tests.soak faults --faults 1000 --output results/faults/one-machine
	$(BIN)/python -m tests.soak hosts --faults 200 --output results/faults/hosts
	$(BIN)/python -m tests.soak kills --output results/faults/kills
	$(BIN)/python -m tests.soak strangers --output results/faults/strangers
	$(BIN)/python -m tests.soak claims --output results/claims
	$(BIN)/python -m tests.soak advice --output results/advice
	$(BIN)/python -m tests.soak schedules --output results/fuzz/schedules
	$(BIN)/python -m pytest -m soak tests
	@for name in scenarios clusters hosts references studies; do \
	  $(BIN)/python -m tests.soak mutations --of $$name --mutants 10000 --processes 2 --output results/fuzz/$$name; done

bench: .venv/installed-test .venv/installed-horovod  ## Measure dlbench's own cost in interleaved pairs: 50 minutes (keep the machine quiet)
	$(BIN)/python -m tests.bench

results: .venv/installed-test  ## Write the pages and figures of results/ from their rows
	$(BIN)/python -m tests.results

clean:  ## Remove the environment and what tools left; studies stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dlbench.egg-info

.venv/installed-cpu: pyproject.toml constraints.txt | .venv/bin/python
	$(call install,cpu,about 470 MB to load$(comma) 2.2 GB on disk)
	@touch $@

.venv/installed-test: pyproject.toml constraints.txt | .venv/bin/python
	$(call install,cpu$(comma)test,for tests in all 3.8 GB on disk)
	@touch $@ .venv/installed-cpu

# What else is installed later can change what Horovod was built for: then it is built, or found, anew.
.venv/installed-horovod: docker/build-horovod .venv/installed-cpu
	@docker/build-horovod .venv
	@touch $@

comma := ,
# In an environment made anew each is asked for before it is known what the others bring.
# What is compiled is read also where PYTHONDONTWRITEBYTECODE is set, which would have every command compile its imports.
define install
	@if [[ $@ -nt pyproject.toml && $@ -nt constraints.txt ]]; then exit; fi; \
	$(SAY) "installing into .venv: a minute or a few, $(2); wheels only, no compiler, no root"; \
	echo unfinished > .venv/made-for; \
	$(INSTALL) --editable '.[$(1)]' || { \
		$(SAY) "installing failed with $$($(BIN)/python --version) (proven: 3.11, 3.12, 3.13); pip's words are above." >&2; \
		$(SAY) "is there a network and room on the disk? then the same command again begins anew" >&2; exit 2; }; \
	$(BIN)/python -m compileall -q dlbench; \
	pwd -P > .venv/made-for
endef

# Each check names what is missing and the command that fixes it.
.venv/bin/python:
	@command -v '$(PYTHON)' >/dev/null || { \
		$(SAY) "$(PYTHON) is missing; install it with: sudo apt-get install python3 python3-venv" >&2; exit 2; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		$(SAY) "$$('$(PYTHON)' --version) is too old, 3.11 or newer is needed; install it with:" \
			"sudo apt-get install python3.11-venv && make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@'$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null || { \
		version=$$('$(PYTHON)' -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		$(SAY) "Python's venv module is missing; install it with: sudo apt-get install python$$version-venv" >&2; exit 2; }
	@[[ $$(uname -sm) == "Linux x86_64" ]] || $(SAY) "proven on Linux x86_64 only, this is $$(uname -sm); going on" >&2
	@rm -rf .venv && mkdir .venv && echo unfinished > .venv/made-for
	'$(PYTHON)' -m venv .venv
