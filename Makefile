# Every target sets up what it needs in .venv; nothing has to be installed by hand.
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do command -v $$p && break; done)
VENV := .venv
BIN := $(VENV)/bin
KERNELS := .venv-kernels
SOURCES := sim policies hwmodels traces experiments
WORKERS ?= auto

.DEFAULT_GOAL := help
.PHONY: help demo test compile lint types layers pytest test-kernels bench clean

help: ## Show the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

$(VENV)/.run: pyproject.toml
	@test -n "$(PYTHON)" || { echo "flocksim needs Python 3.11, 3.12 or 3.13: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Installing flocksim into $(VENV) (about a minute the first time)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@echo "Installing the tools of the tests and of compiling into $(VENV)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	@touch $@

demo: $(VENV)/.run ## Compare four routers at three rates on the embedded workload (under 2 minutes)
	@$(BIN)/python -m experiments.demo

test: lint types layers compile pytest ## Lint, types, import layers, compiling, all tests

compile: $(VENV)/.test ## The engine's busiest modules as machine code: about twice as fast (a minute, once)
	@FLOCKSIM_COMPILED=0 $(BIN)/python -m experiments.compiling --if-possible

lint: $(VENV)/.test ## ruff
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.test ## mypy, strict
	@$(BIN)/mypy

layers: $(VENV)/.test ## import-linter
	@$(BIN)/lint-imports --no-cache

pytest: $(VENV)/.test ## The tests alone
	@$(BIN)/python -m pytest -n $(WORKERS) --dist worksteal

$(KERNELS)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo "flocksim needs Python 3.11, 3.12 or 3.13: make PYTHON=python3.12 ..."; exit 1; }
	@test -x $(KERNELS)/bin/python || $(PYTHON) -m venv $(KERNELS)
	@echo "Installing torch and triton into $(KERNELS) (a minute or more the first time)"
	@$(KERNELS)/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]["kernels"], sep="\n")' > $(KERNELS)/requirements.txt
	@$(KERNELS)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(KERNELS)/requirements.txt
	@touch $@

test-kernels: $(KERNELS)/.ready ## Triton kernels against NumPy on the CPU, without flocksim's other packages
	@$(KERNELS)/bin/python -m pytest tests/kernels

bench: compile ## Simulated requests per second and memory against the targets (about 5 minutes)
	@$(BIN)/python -m tests.bench

clean: ## Remove the venv, caches and outputs
	rm -rf $(VENV) $(KERNELS) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache outputs multirun
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
