# Every target sets up what it needs in .venv; only Python >= 3.11 and make must be there. Modules are
# compiled when they are first imported: most never are. Without the compiled files every process
# would take a second longer to import JAX.
unexport PYTHONDONTWRITEBYTECODE
PYTHON ?= python3
BIN := .venv/bin
# Two workers share the cores. With additional threads they wait for each other, and thousands of small
# products take ten times as long.
ALONE := --xla_cpu_multi_thread_eigen=false
# Most of the test time is compilation of small programs that run once; without optimisation it takes a
# fifth of the time. test-all compiles with optimisation, as for users.
# Tests of one file share compiled programs, so they stay in one worker.
QUICKLY := $(ALONE) --xla_backend_optimization_level=0 --xla_cpu_use_fusion_emitters=false
# Checks of types and shapes at every call take a third of the time: only test-all has them, and the
# tests of the loop and of recovery in `make elsewhere`.
UNTYPED := --jaxtyping-packages=

.PHONY: demo test test-all elsewhere lint types bench league docs lowest package setup clean

demo: setup
	$(BIN)/lemmax demo

test: setup
	XLA_FLAGS="$(QUICKLY)" OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n 2 --dist loadfile -q $(UNTYPED)

test-all: setup
	XLA_FLAGS="$(ALONE)" OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n 2 --dist loadfile -q -m "slow or not slow"

# The same answers elsewhere: a few instances in every order, unit and environment, and the tests of
# recovery again with the BLAS kernels of another processor.
elsewhere: setup
	XLA_FLAGS="$(QUICKLY)" $(BIN)/python -m benchmarks.invariance --count 12
	OPENBLAS_CORETYPE=Nehalem XLA_FLAGS="$(QUICKLY)" OPENBLAS_NUM_THREADS=1 \
		$(BIN)/python -m pytest -n 2 --dist loadfile -q \
		tests/test_recovery*.py tests/test_solve.py

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: setup
	$(BIN)/pyright

bench: setup
	$(BIN)/python -m benchmarks

# The peers need older versions of some packages, so they have their own environment.
league: setup .peers/.ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[benchmark]'
	$(BIN)/python -m benchmarks.league --peers .peers/bin/python

.peers/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv .peers
	.peers/bin/python -m pip install --quiet --disable-pip-version-check -r benchmarks/peers.txt
	@touch $@

docs: setup
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[docs]'
	$(BIN)/sphinx-build -W --keep-going -q docs docs/_build

# Quick tests with the lowest versions that pyproject.toml allows; what old packages warn of does not matter.
lowest: .lowest/.ready
	XLA_FLAGS="$(QUICKLY)" OPENBLAS_NUM_THREADS=1 PYTHONPATH=src \
		.lowest/bin/python -m pytest -n 2 --dist loadfile -q -p no:cacheprovider -o filterwarnings= \
		-o addopts="-m 'not slow'" tests/test_import.py tests/test_solve.py tests/test_saving.py \
		tests/test_cli_reading.py tests/test_cli_data.py tests/test_page.py tests/test_frames.py tests/test_optimistix.py

.lowest/.ready: pyproject.toml .ci/lowest.py
	$(PYTHON) -m venv .lowest
	.lowest/bin/python -m pip install --quiet --disable-pip-version-check --no-compile \
		$$($(PYTHON) .ci/lowest.py) beartype hypothesis polars pytest pytest-xdist
	@touch $@

# What users install: built, and tried in clean environments without extras and with each.
package:
	$(PYTHON) .ci/package.py

setup: .venv/.ready

.venv/.ready: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "lemmax needs Python 3.11 or later; try: make PYTHON=python3.12 $(MAKECMDGOALS)"; exit 1; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile -e '.[dev]'
	@touch $@

clean:
	rm -rf .venv .peers .lowest .package build dist docs/_build docs/examples lemmax-demo .pytest_cache .ruff_cache
