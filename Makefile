# The one entry. `make help` lists the targets.
.DEFAULT_GOAL := help
SHELL := /bin/bash
PYTHON ?= python3
PORT ?= 8000
UV := .tools/uv/bin/uv
UV_VERSION := 0.13.9
BIN := .venv/bin
SAM := tools/sam/.venv/bin
AS_ROOT := $(if $(filter-out 0,$(shell id -u)),sudo)
export UV_PYTHON_PREFERENCE := system
# Without it every start compiles: a package without bytecode takes twice as long to import.
export UV_COMPILE_BYTECODE := 1

.PHONY: help setup page run test race check lock docs format bench screenshots deploy-local deploy clean

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

.PHONY: run-setup
run-setup: .venv/.synced .venv/.agent tools/emulator/.venv/.synced page

# What a user's own agent needs, when one is in its place.
.venv/.agent: layers/agent/requirements.txt .venv/.synced
	$(UV) pip install --quiet --python .venv --requirements $<
	@touch $@

tools/a2a-js/node_modules/.synced: tools/a2a-js/package.json tools/a2a-js/package-lock.json
	npm ci --prefix tools/a2a-js --silent --no-audit --no-fund
	@touch $@

page/node_modules/.synced: page/package.json page/package-lock.json
	npm ci --prefix page --silent --no-audit --no-fund
	@touch $@

functions/inbox/static/index.html: page/node_modules/.synced $(shell find page -name node_modules -prune -o -type f -print)
	npm run --prefix page --silent build -- --logLevel warn
	@touch $@

page: functions/inbox/static/index.html ## the page for people, built of its source

# What the page is tested in; $CHROMIUM names one that is not on the path.
.PHONY: chromium
chromium:
	@test -n "$$CHROMIUM" || command -v chromium chromium-browser google-chrome > /dev/null || { \
	  echo "Chromium is installed, for the tests of the page" && $(AS_ROOT) apt-get update -qq && \
	  $(AS_ROOT) apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; } || { \
	  echo "The tests of the page need Chromium. Install it, or say where it is: CHROMIUM=/path/to/it" >&2; exit 1; }

setup: run-setup chromium tools/sam/.venv/.synced tools/a2a-0.3/.venv/.synced tools/a2a-js/node_modules/.synced ## all that the targets need, below this folder

run: run-setup ## a whole deployment on this machine: emulator, both doors, workers (PORT=8000)
	@exec $(BIN)/python -m tools.laptop.run --port $(PORT)

# Two sets at a time, each with an emulator of its own: much of their time is spent waiting.
test: setup check ## all checks and tests; starts what it needs
	@$(MAKE) --no-print-directory --output-sync=target --keep-going --jobs=2 test-deployed test-page test-code

.PHONY: test-deployed test-page test-code
test-deployed:
	$(BIN)/python -m pytest tests/e2e tests/infrastructure --deselect tests/infrastructure/test_sam.py

test-page:
	npm run --prefix page --silent test
	$(BIN)/python -m pytest tests/browser

test-code:
	$(BIN)/python -m pytest --ignore tests/e2e --ignore tests/infrastructure --ignore tests/browser

race: setup ## the races and the exploration at full size
	INTERLOCK_RACE=full INTERLOCK_PROPERTY_EXAMPLES=20000 INTERLOCK_PROPERTY_ROUNDS=50000 \
	  $(BIN)/python -m pytest tests/property tests/contract tests/e2e

check: setup ## format, lint, types, import contracts, template, the page's source
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	AWS_DEFAULT_REGION=us-east-1 $(SAM)/sam validate
	AWS_DEFAULT_REGION=us-east-1 $(SAM)/sam validate --lint
	$(SAM)/cfn-lint template.yaml
	npm run --prefix page --silent lint
	npm run --prefix page --silent check

lock: $(UV) ## locks anew, and what the deps layer ships with it
	$(UV) lock
	$(UV) export --frozen --no-dev --no-emit-project --no-hashes --no-annotate --no-header --quiet \
	  > layers/deps/requirements.txt

docs: .venv/.synced ## writes anew what is generated in docs/
	$(BIN)/python -m tools.openapi
	$(BIN)/python -m tools.controls
	$(BIN)/python -m tools.reference

format: .venv/.synced ## formats, and mends what lint can mend
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

bench: setup ## calls and units per operation, CPU against the reference server, import cost, latency
	$(BIN)/python -m tests.performance

screenshots: setup ## the pictures of the page in docs/images, taken anew
	$(BIN)/python -m tests.support.pictures

deploy-local: setup ## the real template by SAM onto the emulator, with IAM enforced; stays until Ctrl-C
	@exec $(BIN)/python -m tools.deploy.local

deploy: setup ## the real template onto AWS, as samconfig.toml says (CONFIG=dev)
	$(BIN)/python -m tools.deploy.aws --config-env $(or $(CONFIG),dev)

clean: ## removes what the targets made
	rm -rf .venv .tools .aws-sam .interlock build functions/inbox/static page/node_modules tools/*/.venv .mypy_cache .ruff_cache .pytest_cache .hypothesis
