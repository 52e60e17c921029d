# Development and try-out commands; `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# The interpreter that makes both virtual environments: the project's and the engine's.
PYTHON ?= python3
# Model families to prepare with `make engine`.
FAMILIES ?= qwen3
# More words for supervise, pytest or the benchmarks: make serve ARGS="--health.port 9000"
ARGS ?=

BIN := .venv/bin
VENV := .venv/.complete
PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check
PREPARE := $(PYTHON) images/cpu/prepare.py

.PHONY: help
help: ## List these targets.
	@awk -F ':.*## ' '/^[a-z.-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

define require_python
@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2> /dev/null || { \
  echo "$(PYTHON) is missing or older than Python 3.11; name a newer one, as in: make PYTHON=python3.12" >&2; exit 1; }
endef

.PHONY: venv
venv: $(VENV) ## Make .venv with the project and its development tools.

$(VENV): pyproject.toml
	$(require_python)
	@echo "Making .venv; about half a minute." >&2
	@$(PYTHON) -m venv .venv
	@{ $(PIP_INSTALL) 'pip>=25.1' && $(PIP_INSTALL) --editable . --group dev; } > .venv/install.log 2>&1 \
	  || { tail -n 20 .venv/install.log >&2; exit 1; }
	@touch $@

.PHONY: serve
serve: $(VENV) ## Serve a tiny model with SGLang on this machine's CPU; Ctrl-C stops it.
	@settings=$$($(PREPARE) --family qwen3); set -a; eval "$$settings"; set +a; exec $(BIN)/supervise --profile tiny $(ARGS)

.PHONY: engine
engine: ## Prepare SGLang's CPU engine and a tiny model, and print where they are.
	$(require_python)
	@$(PREPARE) $(addprefix --family ,$(FAMILIES))

.PHONY: test
test: $(VENV) ## Run every layer of tests that this machine allows; root gets the Debian packages they need. REQUIRE_ALL=1 makes a skip a failure.
	@$(PREPARE) --family qwen3 --family kimi_k2 --family glm --family gpt-oss > /dev/null \
	  || echo "There is no CPU engine: tests that need it are skipped." >&2
	@$(PYTHON) tests/parts/debian.py
	@$(BIN)/coverage erase
	@status=0; $(BIN)/coverage run -m pytest $(ARGS) || status=$$?; \
	  $(BIN)/coverage combine --quiet; $(BIN)/coverage report; exit $$status

.PHONY: test-fast
test-fast: $(VENV) ## Run the tests that need no SGLang: unit, histories, process.
	@$(BIN)/python -m pytest -m "not (real or slurm or container or vm)" $(ARGS)

.PHONY: bench
bench: $(VENV) ## Measure the supervisor itself.
	@$(BIN)/python -m bench $(ARGS)

.PHONY: check
check: $(VENV) ## Lint, check the format and the types.
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

.PHONY: fmt
fmt: $(VENV) ## Format the code and fix what the linter can.
	@$(BIN)/ruff format .
	@$(BIN)/ruff check --fix --exit-zero .

.PHONY: clean
clean: ## Remove .venv and everything that tools left behind; the engine stays where `make engine` says.
	@rm -rf .venv .coverage .coverage.* .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist *.egg-info
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
