# The one entry. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
PORT ?= 8000
UV := .tools/uv/bin/uv
UV_VERSION := 0.13.9
BIN := .venv/bin
SAM := tools/sam/.venv/bin
export UV_PYTHON_PREFERENCE := system

.PHONY: help setup run test race check format bench deploy-local deploy openapi clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 16

$(UV):
	$(PYTHON) -m venv .tools/uv
	.tools/uv/bin/python -m pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

.venv/.synced: pyproject.toml uv.lock | $(UV)
	$(UV) sync --frozen --quiet --python $(PYTHON)
	@touch $@

tools/%/.venv/.synced: tools/%/pyproject.toml tools/%/uv.lock | $(UV)
	$(UV) sync --frozen --quiet --python $(PYTHON) --project tools/$*
	@touch $@

run-setup: .venv/.synced tools/emulator/.venv/.synced
.PHONY: run-setup

setup: run-setup tools/sam/.venv/.synced ## everything that the targets need, in environments below this folder

run: run-setup ## a whole deployment on this machine: emulator, both doors, workers (PORT=8000)
	@exec $(BIN)/python -m tools.laptop.run --port $(PORT)

test: setup check ## all checks and tests; starts what it needs
	$(BIN)/python -m pytest

race: setup ## the races and the exploration at full size
	INTERLOCK_RACE=full INTERLOCK_PROPERTY_EXAMPLES=20000 INTERLOCK_PROPERTY_ROUNDS=50000 \
	  $(BIN)/python -m pytest tests/property tests/contract tests/e2e

check: setup ## format, lint, types, import contracts, template
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	AWS_REGION=us-east-1 $(SAM)/sam validate
	AWS_REGION=us-east-1 $(SAM)/sam validate --lint
	$(SAM)/cfn-lint template.yaml

format: .venv/.synced ## formats, and mends what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## calls and units per operation, CPU against the reference server, import cost, latency
	$(BIN)/python -m tests.performance

deploy-local: setup ## the real template by SAM onto the emulator, with IAM enforced; stays until Ctrl-C
	@exec $(BIN)/python -m tools.deploy.local

deploy: setup ## the real template onto AWS, as samconfig.toml says (CONFIG=dev)
	$(BIN)/python -m tools.deploy.aws --config-env $(or $(CONFIG),dev)

clean: ## removes what the targets made
	rm -rf .venv .tools .aws-sam .interlock tools/*/.venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
