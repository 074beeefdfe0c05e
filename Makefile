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

.PHONY: help quickstart horovod test lint bench clean

help:  ## Show what there is
	@grep -hE '^[a-z-]+:.*## ' Makefile | sed -E 's/^([a-z-]+):.*## (.*)/  make \1\t\2/' | expand -t 20

quickstart: .venv/installed-cpu  ## Install into .venv and run scenarios/quickstart.yaml
	$(BIN)/dlbench run scenarios/quickstart.yaml

horovod: .venv/installed-horovod  ## Build Horovod, install it into .venv and prove it (needs g++ and make)

functional = $(patsubst %,tests/functional/test_%.py,$(1))
# Tests that look at no time and start no workers share the cores, and so do those that mostly wait: for ssh, for a
# queue, for what others do. All others take turns.
TOGETHER := tests/unit tests/golden $(call functional,batch_norm check_command imports keras_cost keras_datasets \
	keras_engine keras_models keras_trainer page_in_browser report_command trainers_agree)
WAITING := $(call functional,build_horovod careless docker from_python hosts_apart kubernetes mpich mutations prepare \
	readme sbatch setup several_hosts slurm_job srun)

test: .venv/installed-test .venv/installed-horovod lint  ## Run lint, types and all tests
	@trap 'exit 130' INT; result=0; set -x; \
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(TOGETHER) || result=$$?; \
	$(BIN)/python -m pytest --numprocesses 2 --dist worksteal $(WAITING) || result=$$?; \
	$(BIN)/python -m pytest $(addprefix --ignore ,$(TOGETHER) $(WAITING)) || result=$$?; \
	exit $$result

lint: .venv/installed-test  ## Run ruff, mypy and import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

bench: .venv/installed-test  ## Measure dlbench's own cost in interleaved pairs (keep the machine quiet)
	$(BIN)/python -m tests.bench

clean:  ## Remove the environment and what tools left; studies stay
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis build dlbench.egg-info

.venv/installed-cpu: pyproject.toml constraints.txt | .venv/bin/python
	$(call install,cpu)
	@touch $@

.venv/installed-test: pyproject.toml constraints.txt | .venv/bin/python
	$(call install,cpu$(comma)test)
	@touch $@ .venv/installed-cpu

# What else is installed later can change what Horovod was built for: then it is built, or found, anew.
.venv/installed-horovod: docker/build-horovod .venv/installed-cpu
	@docker/build-horovod .venv
	@touch $@

comma := ,
define install
	@$(SAY) "installing into .venv: a minute or a few, about 420 MB to load, 2 GB on disk; wheels only, no compiler, no root"
	@echo unfinished > .venv/made-for
	@$(INSTALL) --editable '.[$(1)]' || { \
		$(SAY) "installing failed with $$($(BIN)/python --version) (proven: 3.11, 3.12, 3.13); pip's words are above." >&2; \
		$(SAY) "is there a network and room on the disk? then the same command again begins anew" >&2; exit 2; }
	@pwd -P > .venv/made-for
endef

# Each check names what is missing and the command that mends it.
.venv/bin/python:
	@command -v '$(PYTHON)' >/dev/null || { \
		$(SAY) "$(PYTHON) is missing; mend it with: sudo apt-get install python3 python3-venv" >&2; exit 2; }
	@'$(PYTHON)' -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		$(SAY) "$$('$(PYTHON)' --version) is too old, 3.11 or newer is needed; mend it with:" \
			"sudo apt-get install python3.11-venv && make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	@'$(PYTHON)' -c 'import venv, ensurepip' 2>/dev/null || { \
		version=$$('$(PYTHON)' -c 'import sys; print("%d.%d" % sys.version_info[:2])'); \
		$(SAY) "Python's venv module is missing; mend it with: sudo apt-get install python$$version-venv" >&2; exit 2; }
	@[[ $$(uname -sm) == "Linux x86_64" ]] || $(SAY) "proven on Linux x86_64 only, this is $$(uname -sm); going on" >&2
	@rm -rf .venv && mkdir .venv && echo unfinished > .venv/made-for
	'$(PYTHON)' -m venv .venv
