# `make check` is what CI runs. Everything lives in .venv; nothing is installed outside this folder.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready

.PHONY: check quick test unit lint types imports proto proto-check sync sync-check buf format clean lock agents

# Tests wait for servers now and then: types are checked meanwhile.
check: $(READY)
	$(MAKE) --no-print-directory -j2 types lint imports proto-check sync-check buf test

# Within a minute, once mypy has its cache: before each commit.
quick: $(READY)
	$(MAKE) --no-print-directory -j2 types lint unit

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $(READY)

# Two processes, each with stores of its own; then the faults, on a machine that does nothing else.
test: $(READY)
ifdef ARGS
	$(BIN)/python -m pytest $(ARGS)
else
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --ignore=tests/e2e/test_faults.py
	$(BIN)/python -m pytest tests/e2e/test_faults.py
endif

unit: $(READY)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal tests/unit

lint: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .

types: $(READY)
	$(BIN)/mypy

imports: $(READY)
	$(BIN)/lint-imports

# Regenerate plait/v1 from proto/; `proto-check` fails when that would change a file.
proto: $(READY)
	$(BIN)/python proto/generate.py

proto-check: $(READY)
	$(BIN)/python proto/generate.py --check

# Generate the synchronous client from the asynchronous one; `sync-check` fails when that would change a file.
sync: $(READY)
	$(BIN)/python tools/generate_sync_client.py

sync-check: $(READY)
	$(BIN)/python tools/generate_sync_client.py --check

# buf is an npm package. Without npm this is left out on a laptop, and fails in CI.
buf:
	@if command -v npm >/dev/null; then \
	  { [ node_modules/.package-lock.json -nt package-lock.json ] || npm ci --silent --no-audit --no-fund; } && node_modules/.bin/buf lint; \
	elif [ -n "$$CI" ]; then echo "buf lint needs npm" >&2; exit 1; \
	else echo "buf lint: skipped, npm is not installed"; fi

# Real agents' command lines list Plait as connected; needs npm and 700 MB, so it is no part of CI.
agents: $(READY)
	$(BIN)/python tests/agents/list_servers.py

format: $(READY)
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

# Write constraints.txt anew from what a fresh environment resolves to.
lock:
	rm -rf $(VENV)/lock && $(PYTHON) -m venv $(VENV)/lock
	$(VENV)/lock/bin/python -m pip install --quiet -e ".[dev]"
	{ echo "# Exact versions for CI and for the README's commands; \`make lock\` writes this file anew."; \
	  $(VENV)/lock/bin/python -m pip freeze --exclude-editable; } > constraints.txt
	rm -rf $(VENV)/lock

clean:
	rm -rf $(VENV) node_modules build dist *.egg-info
