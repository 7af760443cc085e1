PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/.core
READY := $(VENV)/.ready
JOBS ?= 2
# One BLAS thread per test worker: two workers with two threads each only fight for the cores.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n $(JOBS) --dist worksteal

.PHONY: demo test test-statistical test-slow test-federation test-cluster test-neural test-oldest federation-demo federation-stress lint format bench bench-full bench-compare clean
.DEFAULT_GOAL := test

# What a user installs, and no more.
$(CORE): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check --editable .
	touch $(CORE)

# What tests, checks and pages need besides.
$(READY): $(CORE)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	touch $(READY)

demo: $(CORE)
	$(BIN)/tacit demo

test: $(READY)
	$(PYTEST)

test-statistical: $(READY)
	$(PYTEST) -m statistical

test-slow: $(READY)
	$(PYTEST) -m slow

# Real processes on loopback; NVFlare gets an environment of its own, as it is large.
FEDERATION := .venv-federation
$(FEDERATION)/.ready: pyproject.toml
	$(PYTHON) -m venv $(FEDERATION)
	$(FEDERATION)/bin/python -m pip install --quiet --upgrade pip
	$(FEDERATION)/bin/python -m pip install --quiet --editable ".[federation]" pytest hypothesis
	touch $(FEDERATION)/.ready

test-federation: $(FEDERATION)/.ready
	OMP_NUM_THREADS=1 $(FEDERATION)/bin/python -m pytest -m "federation or not federation" $(addprefix tests/federation/test_,flare.py gate.py ledgers.py doors.py)

# Everything a federation must show; an hour.
federation-stress: $(FEDERATION)/.ready
	OMP_NUM_THREADS=1 $(FEDERATION)/bin/python -m tests.federation.stress

federation-demo: $(FEDERATION)/.ready
	$(FEDERATION)/bin/tacit federate demo

# Worker processes of a cluster on loopback; Ray gets an environment of its own, too.
CLUSTER := .venv-cluster
$(CLUSTER)/.ready: pyproject.toml
	$(PYTHON) -m venv $(CLUSTER)
	$(CLUSTER)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[cluster,parquet]" pytest hypothesis
	touch $(CLUSTER)/.ready

test-cluster: $(CLUSTER)/.ready
	OMP_NUM_THREADS=1 $(CLUSTER)/bin/python -m pytest -m cluster tests/engines/test_ray.py
	OMP_NUM_THREADS=1 $(CLUSTER)/bin/python -m pytest -m cluster tests/engines/test_ray_machines.py

# JAX gets an environment of its own, too.
NEURAL := .venv-neural
$(NEURAL)/.ready: pyproject.toml
	$(PYTHON) -m venv $(NEURAL)
	$(NEURAL)/bin/python -m pip install --quiet --disable-pip-version-check --editable ".[neural]" pytest pytest-xdist hypothesis
	touch $(NEURAL)/.ready

test-neural: $(NEURAL)/.ready
	OMP_NUM_THREADS=1 $(NEURAL)/bin/python -m pytest -n $(JOBS) --dist worksteal tests/neural tests/privacy/test_clipped_sums.py
	OMP_NUM_THREADS=1 $(NEURAL)/bin/python -m pytest -n $(JOBS) --dist worksteal -m "not statistical" -k "Neural or Fed" tests/audit/test_standing_attacks.py

# The built wheel, in an environment of its own, with the oldest versions it allows.
test-oldest: $(READY)
	rm -rf dist .venv-oldest
	$(BIN)/python -m build --outdir dist . > /dev/null
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --constraint oldest.txt "$$(ls dist/*.whl)[all]" pandas polars pytest pytest-xdist hypothesis
	OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -n $(JOBS) --dist worksteal tests/numerics tests/tasks tests/estimators tests/protocols tests/cli/test_commands.py

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The table of README.md and docs/benchmarks.md; one BLAS thread, as fits use it.
bench: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/suite.py

# Larger sizes, and every script; hours.
bench-full: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python benchmarks/suite.py --full

# Whole fits against an earlier commit: make bench-compare REV=7b0831a
bench-compare: $(READY)
	$(BIN)/python benchmarks/compare.py $(REV)

clean:
	rm -rf $(VENV) $(FEDERATION) $(CLUSTER) $(NEURAL) build dist .mypy_cache .ruff_cache .pytest_cache
