# Every command of the project. Each target does its own set-up, from a bare clone on.

PYTHON ?= python3
VENV ?= .venv
PYTEST_OPTIONS ?=

BIN := $(VENV)/bin
RUN := $(abspath $(BIN))/python
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)
# The tests write what they proved here.
PROVEN := .cache/requirements.json

export PYSPARK_PYTHON := $(RUN)
export PYSPARK_DRIVER_PYTHON := $(RUN)
# Settings of the caller's own Spark would decide what runs here.
unexport SPARK_HOME PYTHONPATH
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test test-rust test-native test-python test-wheels test-grid lint fmt bench bench-full wheel requirements grid interop clean java

help:  ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/\1|\2/' | while IFS='|' read -r name text; do printf '  %-14s %s\n' "$$name" "$$text"; done

setup: $(VENV)/.native $(VENV)/.azurite $(VENV)/.rest  ## Make the environment in .venv and build the kernels

$(VENV)/.packages: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "deltaberg needs CPython 3.10 or newer: set PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "this Python cannot make environments; on Debian: apt-get install python3-venv"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(RUN) -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	$(RUN) -m pip install --quiet --group dev
	@touch $@

$(VENV)/.native: $(VENV)/.packages $(RUST)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.88 or newer (rustup), or use the pure package: pip install ."; exit 1; }
	VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --quiet
	@touch $@

$(VENV)/.azurite: $(VENV)/.packages tests/support/azurite.py
	$(RUN) -m tests.support.azurite --install
	@touch $@

# Without Maven the tests against the reference server of the REST protocol skip.
$(VENV)/.rest: $(VENV)/.packages tests/support/rest_reference.py
	@if command -v mvn >/dev/null; then $(RUN) -m tests.support.rest_reference --install; else echo "mvn is missing: tests against the REST reference server will skip"; fi
	@touch $@

java:
	@command -v java >/dev/null || { echo "java is missing: PySpark 4 runs on a JDK 17 or 21. On Debian: apt-get install openjdk-17-jdk-headless; on macOS: brew install openjdk@17; or get one from adoptium.net and put its bin folder on PATH."; exit 1; }

demo: java setup  ## Read tables with deletion vectors, column mapping and partitions on Spark, and check the rows
	$(RUN) -m tests.demo

# Each kind of kernels leaves half of the processors alone: both take their turns at once.
test: java setup lint test-rust  ## Run all linters and tests, with both kernels and in the wheels
	$(MAKE) --jobs=2 test-native test-python
	$(MAKE) test-wheels test-grid

test-rust: setup
	cargo test --release --quiet --package deltaberg-core

test-native: java setup
	@mkdir -p .cache
	DELTABERG_KERNELS=native $(RUN) -m pytest --quiet --requirements=$(PROVEN) $(PYTEST_OPTIONS)

test-python: java setup
	DELTABERG_KERNELS=python $(RUN) -m pytest --quiet -m 'not one_backend' $(PYTEST_OPTIONS)

test-wheels: wheel
	$(RUN) -m tests.environments pure lowest

test-grid: java setup
	$(RUN) -m tests.grid --smoke

lint: setup  ## Run ruff, mypy, rustfmt and clippy
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	cargo fmt --check
	cargo clippy --release --quiet --all-targets -- --deny warnings

fmt: setup  ## Format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt

bench: java setup  ## Compare with the peers on a tenth of the data, in minutes (options in ARGS)
	$(RUN) -m benches --scale 0.1 --rounds 1 $(ARGS)

bench-full: java setup  ## The same on all of the data; writes benches/RESULTS.md and a chart
	$(RUN) -m benches --report benches $(ARGS)

wheel: setup  ## Build the compiled wheel, the pure wheel and the source distribution into dist/
	@rm -rf dist
	$(BIN)/maturin build --release --quiet --out dist
	$(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --config-settings=kernels=python --wheel-dir dist .
	$(RUN) -c 'import sys; sys.path.insert(0, "build_backend"); import deltaberg_build; deltaberg_build.build_sdist("dist")'
	@ls dist

requirements: java setup  ## Print the rules of the specifications that no passing test proves (options in ARGS)
	$(RUN) -m tests.requirements $(ARGS)

grid: java setup  ## Run the Spark tests on other minors of PySpark, in environments of their own
	$(RUN) -m tests.grid $(ARGS)

interop: java setup  ## Compare with all that delta-spark, iceberg-spark, deltalake and pyiceberg write
	$(RUN) -m pytest --quiet --judges tests/interop $(PYTEST_OPTIONS)

clean:  ## Remove environments and what was built
	rm -rf .venv* .cache dist target build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python -name '*.so' -delete
