# Two commands matter: `make demo` shows the router at work, `make test` tests it. Each sets up what it needs.

VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST := $(BIN)/python -m pytest
WORKERS ?= 2

.PHONY: help setup demo test check format test-engine soak test-page test-wheel compiled wheel-compiled test-compiled test-pythons screenshots interop-setup test-interop test-network test-clean bench bench-all peers-setup guard lock clean
.DEFAULT_GOAL := help

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | expand -t 14

setup: $(VENV)/.ready ## Create .venv with everything that development needs

$(BIN)/python:
	@test -n "$(PYTHON)" || { echo "Python 3.11 or newer is needed" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The stamp is newer than what it was made from, so that nothing is installed twice.
$(VENV)/.ready: pyproject.toml requirements-dev.lock | $(BIN)/python
	$(PIP) install -r requirements-dev.lock
	$(PIP) install --no-deps --no-build-isolation --editable .
	@touch $@

$(VENV)/.engine: requirements-engine.lock $(VENV)/.ready
	$(PIP) install -r requirements-engine.lock
	@touch $@

demo: setup ## A whole cluster on this machine: two daemons, three engines, the router on port 6381
	$(BIN)/mentatd-demo

test: setup ## Run the tests
	$(PYTEST) -n $(WORKERS) -q

check: setup ## What CI runs: format, lint, types, import direction, tests, coverage
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(PYTEST) tests/test_imports.py -q
	$(PYTEST) -n $(WORKERS) -q --cov --cov-context=test --cov-report=
	$(BIN)/coverage report --format=total --fail-under=90
	$(BIN)/python -m tests.gates.own_coverage

format: setup ## Let ruff rewrite what it can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

test-engine: $(VENV)/.engine ## The same router in front of a real llama.cpp server (downloads 300 MB once)
	$(PYTEST) tests/engine -q -m engine

soak: setup ## Minutes of good and bad traffic leave nothing behind (SOAK_S=seconds of the mixed part, else 60)
	$(PYTEST) tests/soak -q -m soak

test-page: setup ## The status page in a real browser (needs Debian's chromium, or CHROMIUM=/path/to/one)
	$(PYTEST) tests/page -n $(WORKERS) -q -m page

$(VENV)/.packaging: requirements-packaging.lock $(VENV)/.ready
	$(PIP) install -r requirements-packaging.lock
	@touch $@

test-wheel: $(VENV)/.packaging ## Build, install and run what users install; lint the image, the units, the manual page
	$(PYTEST) tests/packaging -q -m "wheel or not wheel"

COMPILED := build/compiled
compiled: setup ## The compiled build, unpacked into build/compiled: what test-compiled tests, and bench measures too
	rm -rf $(COMPILED)
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m hatchling build --target wheel --directory $(COMPILED)
	$(BIN)/python -m zipfile --extract $(COMPILED)/*.whl $(COMPILED)

wheel-compiled: setup ## The optional wheel, its hot modules compiled by mypyc, into dist/ (needs a C compiler and Python's headers)
	HATCH_BUILD_HOOK_ENABLE_CUSTOM=true $(BIN)/python -m hatchling build --target wheel --directory dist

test-compiled: compiled ## The tests of what is compiled, on the compiled wheel
	PYTHONPATH=$(COMPILED) $(PYTEST) tests/http tests/wire tests/cluster tests/serve tests/e2e -n $(WORKERS) -q --compiled

PYTHONS ?= $(shell sed -n 's/.*Python :: \(3\.[0-9]*\)".*/\1/p' pyproject.toml)
test-pythons: setup ## The tests, plain and compiled, on the other supported Pythons of this machine, set up in build/
	@for version in $(PYTHONS); do \
		if [ -e $(BIN)/python$$version ]; then continue; fi; \
		if ! python$$version -c "" 2>/dev/null; then echo "no python$$version here: skipped" >&2; continue; fi; \
		$(MAKE) VENV=build/python$$version PYTHON=python$$version COMPILED=build/compiled-$$version \
			test test-compiled || exit 1; \
	done

screenshots: setup ## The status page in its states, into docs/images/ (nicer where the font Inter is installed)
	$(BIN)/python -m tests.page.screenshots

interop-setup: setup ## Build the published mentat, two releases, into the user's cache (needs cargo; some minutes, once)
	$(BIN)/python -m tests.interop.published

test-interop: setup ## Our programs and the published mentat's, in one cluster; skips what interop-setup has not built
	$(PYTEST) tests/interop -n $(WORKERS) -q -m interop

test-network: setup ## Hosts, cables and partitions, in network namespaces (needs root and iproute2; skipped without)
	$(PYTEST) tests/network -n $(WORKERS) -q -m network

test-clean: setup ## The README's two commands in a fresh clone with an empty pip cache
	$(PYTEST) tests/clean -q -m clean

bench: setup ## What a request and a chunk cost, beside nginx; BENCH="…" for options (--help lists them)
	$(BIN)/python -m bench $(BENCH)

bench-all: compiled ## Every workload through every router that peers-setup could install; writes bench/report.md (an hour)
	rm -f bench/report.jsonl
	$(BIN)/python -m bench --rounds 5 --workloads all --programs all --output bench/report.jsonl $(BENCH)

peers-setup: setup ## Install the routers that bench-all measures beside ours into the user's cache (1.2 GB; some minutes, once)
	$(BIN)/python -m bench.peers

guard: setup ## Hold the instructions of a request and of a chunk to the stored figures; GUARD=--store stores new ones
	$(BIN)/python -m bench.guard $(GUARD)

lock: ## Pin the newest versions that pyproject.toml allows (needs uv)
	$(LOCK) pyproject.toml -o requirements.lock
	$(LOCK) pyproject.toml --extra dev -o requirements-dev.lock
	$(LOCK) pyproject.toml --extra engine -o requirements-engine.lock
	$(LOCK) pyproject.toml --extra packaging -o requirements-packaging.lock

LOCK := uv pip compile --quiet --universal --python-version 3.11 \
	--no-emit-package mentatd-serve --custom-compile-command "make lock"

clean: ## Remove what was built, .venv too
	rm -rf $(VENV) build dist .coverage* .hypothesis .mypy_cache .pytest_cache .ruff_cache
