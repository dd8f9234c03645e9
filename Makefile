# Every command of the project. Each target does its own set-up, from a bare clone on.

PYTHON ?= python3
VENV ?= .venv
PYTEST_OPTIONS ?=

BIN := $(VENV)/bin
RUN := $(abspath $(BIN))/python
RUST := Cargo.toml Cargo.lock $(shell find rust -name '*.rs' -o -name Cargo.toml)
# The tests write what they proved here.
PROVEN := .cache/requirements
# cargo and maturin would take the jobs of make for their own.
ALONE := env -u MAKEFLAGS -u MFLAGS
PYTEST := $(ALONE) $(RUN) -m pytest --quiet --durations=10 --durations-min=5
# Of what depends on the kernels, `make test` runs these two parts with the Python ones, and `make test-all` the rest.
PURE := not one_backend and not spark and (both_backends or not (slow or full))
PURE_SPARK := not one_backend and spark and both_backends
PURE_REST := not one_backend and (thorough or (not both_backends and (spark or slow or full)))
# The seed of what tries new random examples: a number repeats a run.
SEED ?= new
CARGO_MUTANTS := .cache/cargo-mutants
CARGO_MUTANTS_VERSION := 27.1.0
# What is written by kernels, and judged by the engines on Spark.
WRITTEN := $(addprefix tests/interop/test_,iceberg_operations.py iceberg_references.py iceberg_row_changes.py spark_writes.py vacuums.py written_iceberg.py)
# Where make can, it prints what a target says in one piece, though others run beside it.
SIDE_BY_SIDE := --no-print-directory --jobs=2 $(if $(filter output-sync,$(.FEATURES)),--output-sync=target)

NEEDS_JAVA := command -v java >/dev/null || { echo "java is missing: PySpark 4 runs on a JDK 17 or 21. On Debian: apt-get install openjdk-17-jdk-headless; on macOS: brew install openjdk@17; or get one from adoptium.net and put its bin folder on PATH."; exit 1; }

export PYSPARK_PYTHON := $(RUN)
export PYSPARK_DRIVER_PYTHON := $(RUN)
# Settings of the caller's own Spark would decide what runs here.
unexport SPARK_HOME PYTHONPATH
# A process that must compile all of its modules takes three times as long to start.
unexport PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX := $(abspath .cache/bytecode)
# The order of sets is the same in every run. `make explore` has others.
export PYTHONHASHSEED ?= 0
export PIP_QUIET := 1
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help setup demo test test-all test-rust test-spark test-local test-python test-python-spark test-full test-python-rest test-wheels lint fmt lock bench bench-full wheel requirements grid interop proof mutants explore clean java

help:  ## List the targets
	@echo "Needs CPython 3.10 or newer, cargo 1.88 or newer, a JDK 17 or 21, and the registries of Python, Rust and npm"
	@echo "packages. With Maven (mvn), the tests against the reference server of the REST protocol run, too."
	@awk -F ':.*## ' '/^##@/ {printf "\n%s\n", substr($$0, 5)} /^[a-z-]+:.*## / {printf "  %-18s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

##@ From a bare clone
setup: $(VENV)/.native $(VENV)/.azurite $(VENV)/.rest  ## Make the environment in .venv and build the kernels

$(VENV)/.packages: requirements/installer.txt requirements/build.txt requirements/dev.txt tests/support/packages.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { echo "deltaberg needs CPython 3.10 or newer: set PYTHON=python3.x"; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "this Python cannot make environments; on Debian: apt-get install python3-venv"; exit 1; }
	@echo "set-up 1 of 3: an environment in $(VENV), and uv to fill it (about 10 seconds)"
	@$(PYTHON) -m venv $(VENV)
	@$(RUN) -m pip install --require-hashes --requirement requirements/installer.txt
	@echo "set-up 2 of 3: the Python packages of requirements/dev.txt, PySpark among them (1 to 2 minutes, or seconds where uv has them already)"
	@$(RUN) -m tests.support.packages dev
	@touch $@

$(VENV)/.native: $(VENV)/.packages $(RUST)
	@command -v cargo >/dev/null || { echo "cargo is missing: install Rust 1.88 or newer (rustup), or use the pure package: pip install ."; exit 1; }
	@echo "set-up 3 of 3: the kernels, compiled by cargo (about 2 minutes, or seconds after a small change)"
	@VIRTUAL_ENV=$(abspath $(VENV)) $(BIN)/maturin develop --release --locked --quiet
	@touch $@

$(VENV)/.azurite: $(VENV)/.packages tests/support/azurite.py requirements/azurite/package-lock.json
	@echo "set-up of the tests, 1 of 2: azurite, an emulator of Azure's stores (about half a minute)"
	@$(RUN) -m tests.support.azurite --install
	@touch $@

# Without Maven the tests against the reference server of the REST protocol skip.
$(VENV)/.rest: $(VENV)/.packages tests/support/rest_reference.py
	@echo "set-up of the tests, 2 of 2: the reference server of Iceberg's REST protocol, by Maven (about half a minute)"
	@if command -v mvn >/dev/null; then $(RUN) -m tests.support.rest_reference --install; else echo "mvn is missing: tests against the REST reference server will skip"; fi
	@touch $@

$(VENV)/.duckdb: $(VENV)/.packages tests/interop/duckdb_reader.py requirements/duckdb.txt
	@echo "set-up of the comparisons: DuckDB with the extensions that read tables, in an environment of its own (10 seconds)"
	@$(RUN) -m tests.interop.duckdb_reader --install
	@touch $@

java:
	@$(NEEDS_JAVA)

demo: java $(VENV)/.native  ## Read tables of all kinds on Spark; create, append to and change others; check the rows
	$(RUN) -m tests.demo

# The longest parts are begun early and a short one is the last, so that two processors end at about the same time.
test: java setup  ## Run the linters and the tests, with the Python kernels where they could differ
	@echo "tests in six parts, two at a time; each prints when it is done, the first after some minutes"
	@$(MAKE) $(SIDE_BY_SIDE) test-spark lint test-rust test-local test-python test-python-spark
	$(if $(PYTEST_OPTIONS),,$(RUN) -m tests.requirements --quiet --results $(PROVEN)/spark.json --results $(PROVEN)/local.json)

test-all: test  ## Also run all other tests, with both kernels, in the built wheels, beside other engines, and on the grid
	$(MAKE) test-full test-python-rest test-wheels interop grid

##@ Parts of the tests
test-spark: setup  ## Tests that start Spark, with the compiled kernels
	@$(NEEDS_JAVA)
	DELTABERG_KERNELS=native $(PYTEST) -m 'spark and not full' --requirements=$(PROVEN)/spark.json $(PYTEST_OPTIONS)

test-local: setup  ## Tests on one machine, with the compiled kernels
	@$(NEEDS_JAVA)
	DELTABERG_KERNELS=native $(PYTEST) -m 'not spark and not full' --requirements=$(PROVEN)/local.json $(PYTEST_OPTIONS)

test-python: setup  ## Tests that depend on the kernels, with the Python ones: all that are quick
	@$(NEEDS_JAVA)
	DELTABERG_KERNELS=python $(PYTEST) -m '$(PURE)' $(PYTEST_OPTIONS)

test-python-spark: setup  ## Tests that start Spark and depend on the kernels, with the Python ones: a few of each kind
	@$(NEEDS_JAVA)
	DELTABERG_KERNELS=python $(PYTEST) -m '$(PURE_SPARK)' $(PYTEST_OPTIONS)

test-full: setup  ## The tests and the random examples that `make test` leaves out, with the compiled kernels
	@$(NEEDS_JAVA)
	DELTABERG_THOROUGH=1 DELTABERG_KERNELS=native $(PYTEST) -m 'full or thorough' --random-seed=$(SEED) $(PYTEST_OPTIONS)

test-python-rest: setup  ## The tests and the random examples with the Python kernels that `make test` leaves out
	@$(NEEDS_JAVA)
	DELTABERG_THOROUGH=1 DELTABERG_KERNELS=python $(PYTEST) -m '$(PURE_REST)' --random-seed=$(SEED) $(PYTEST_OPTIONS)

test-rust: setup  ## Tests of the Rust crates
	$(ALONE) cargo test --locked --quiet --package deltaberg-core

test-wheels: wheel  ## Tests in environments of the built wheels, one of them with the lowest versions
	$(RUN) -m tests.environments pure lowest

grid: java setup  ## Spark tests on each release of PySpark, and with the lowest and the newest packages (options in ARGS)
	$(RUN) -m tests.grid $(ARGS)

interop: java setup $(VENV)/.duckdb  ## Comparison with all that delta-spark, iceberg-spark, deltalake and pyiceberg write
	$(RUN) -m pytest --quiet --judges tests/interop --random-seed=$(SEED) $(PYTEST_OPTIONS)
	DELTABERG_KERNELS=python $(RUN) -m pytest --quiet --judges $(WRITTEN) --random-seed=$(SEED) $(PYTEST_OPTIONS)

proof: setup  ## Try every crash point, fault and race of writing, and random operations; print what was lost (options in ARGS)
	DELTABERG_KERNELS=native $(RUN) -m tests.proof $(ARGS)

mutants: setup $(CARGO_MUTANTS)/.$(CARGO_MUTANTS_VERSION)  ## Plant small faults in a copy of the sources, and print those that no test finds (options in ARGS)
	$(ALONE) $(RUN) -m tests.mutants $(ARGS)

$(CARGO_MUTANTS)/.$(CARGO_MUTANTS_VERSION):
	@echo "set-up of mutants: cargo-mutants, which knows those of Rust (about 2 minutes)"
	@$(ALONE) cargo install --quiet --locked --version $(CARGO_MUTANTS_VERSION) --root $(CARGO_MUTANTS) cargo-mutants
	@touch $@

explore: java setup  ## Run the random tests with new examples, and say how to repeat what they find (SEED=n repeats a run)
	PYTHONHASHSEED=random DELTABERG_THOROUGH=1 DELTABERG_KERNELS=native $(PYTEST) --explore --random-seed=$(SEED) $(PYTEST_OPTIONS)

requirements: java setup  ## Print the rules of the specifications that no test proves, or on one road alone; fail if we claim them (options in ARGS)
	$(RUN) -m tests.requirements $(ARGS)

##@ Work on the sources
lint: setup  ## Run ruff, mypy, rustfmt and clippy
	$(BIN)/ruff check --quiet .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/mypy
	cargo fmt --check
	$(ALONE) cargo clippy --locked --quiet --all-targets -- --deny warnings

fmt: setup  ## Format the sources
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	cargo fmt

lock: setup  ## Renew the lock files in requirements/
	$(RUN) -m tests.lock

wheel: setup  ## Build the compiled wheel, the pure wheel and the source distribution into dist/
	@rm -rf dist
	$(BIN)/maturin build --release --locked --quiet --out dist
	$(RUN) -m pip wheel --quiet --no-deps --no-build-isolation --config-settings=kernels=python --wheel-dir dist .
	$(RUN) -c 'import sys; sys.path.insert(0, "build_backend"); import deltaberg_build; deltaberg_build.build_sdist("dist")'
	@ls dist

bench: java $(VENV)/.native  ## Compare with the peers on a tenth of the data, in minutes (options in ARGS)
	$(RUN) -m benches --scale 0.1 --rounds 1 $(ARGS)

bench-full: java $(VENV)/.native  ## The same on all of the data; writes benches/RESULTS.md and a chart
	$(RUN) -m benches --report benches $(ARGS)

clean:  ## Remove environments and what was built
	rm -rf .venv* .cache dist target build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find python -name '*.so' -delete
