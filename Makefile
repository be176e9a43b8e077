# Everything runs in a virtual environment of its own; Python >= 3.10 and make are all it takes.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
USE    := $(VENV)/.installed-all
DEV    := $(VENV)/.installed-dev

OLD    := $(VENV)-oldest
OLDEST := $(OLD)/.installed

SPARK := $(VENV)-spark

FLOWER := $(VENV)-flower
FLWR   := $(FLOWER)/.installed

.PHONY: help demo quick test lint types layers unit oldest spark flower flower-tests docs bench fuzz bench-peers bench-rates bench-park clean
.DEFAULT_GOAL := help

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("dpsco needs Python 3.10 or newer, this is " + sys.version.split()[0]) if sys.version_info < (3, 10) else None'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-%: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[$*]'
	@touch $@

demo: $(USE)  ## fit a private model end to end and verify its certificate
	$(BIN)/dpsco demo --output demo-output

# Each solver on one problem, known answers, rules of the house, a sample of the golden results; one
# thread for each worker: two that spin for each other take ten times as long.
quick: $(DEV)  ## the tests for daily work, two minutes: all but those marked slow or thorough
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q --no-header -m 'not slow and not thorough'

test: lint types layers unit oldest spark flower docs  ## set up, then lint, types, layers, tests, oldest versions, Spark, Flower, docs

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

layers: $(DEV)
	$(BIN)/lint-imports

unit: $(DEV)
	OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 -q

# Every dependency at its lower bound: each "name>=bound" of pyproject.toml becomes name==bound.
$(OLDEST): pyproject.toml
	$(PYTHON) -m venv $(OLD)
	grep -oE '"[A-Za-z0-9_-]+>=[0-9.]+"' pyproject.toml | tr -d '"' | sed 's/>=/==/' > $(OLD)/lowest.txt
	$(OLD)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --constraint $(OLD)/lowest.txt --editable '.[all,test]'
	@touch $@

oldest: $(OLDEST)  ## the tests of make quick, with every dependency at its lower bound
	OPENBLAS_NUM_THREADS=1 DPSCO_OLDEST=1 $(OLD)/bin/python -m pytest -n 2 -q --no-header -m 'not slow and not thorough' \
	    --ignore=tests/docs --ignore=tests/report/test_browser.py

# The whole of pyspark, 480 MB with the server, in the place of the client that the extra asks for.
$(SPARK)/.installed: pyproject.toml Makefile
	$(PYTHON) -m venv $(SPARK)
	$(SPARK)/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[parquet,accounting]' \
	    'pyspark[connect]>=4.2,<5' 'pandas<3' pytest
	@touch $@

spark: $(SPARK)/.installed  ## the tests with a real Spark server, which needs Java 17
	OPENBLAS_NUM_THREADS=1 DPSCO_SPARK=1 $(SPARK)/bin/python -m pytest -q --no-header \
	    tests/data/tables/cluster/test_spark.py

# Flower pins versions of what others need as well, so it has an environment of its own.
$(FLWR): pyproject.toml
	$(PYTHON) -m venv $(FLOWER)
	$(FLOWER)/bin/python -m pip install --quiet --disable-pip-version-check \
	    --editable '.[flower,parquet]' pytest
	@touch $@

flower:  ## a federated run as a Flower app: its own processes, on loopback; needs Python 3.11
	@if $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then $(MAKE) flower-tests; \
	    else echo "Flower needs Python 3.11 or newer: its tests are left out"; fi

flower-tests: $(FLWR)
	OPENBLAS_NUM_THREADS=1 $(FLOWER)/bin/python -m pytest -q --no-header \
	    tests/federated/transport/test_flower.py

docs: $(DEV)  ## build the documentation; a warning is an error
	$(BIN)/sphinx-build -j 2 -W --keep-going -q -b html docs docs/_build/html

bench: $(DEV)  ## measured ratios: noise, calibration, loops beside C, Parquet (4 GB of disk), start-up, fits
	$(BIN)/python -m benchmarks

fuzz: $(DEV)  ## read 10,000 mutated files and messages: typed errors only, 2 s and 500 MB each
	$(BIN)/python -m benchmarks.fuzz --workers 2

bench-rates: $(DEV)  ## excess risk against n for every solver, beside the bands of the theory
	$(BIN)/python -m benchmarks.rates

bench-peers: $(DEV)  ## untuned fits beside other software's best (tables in $$DPSCO_DATA)
	$(BIN)/python -m benchmarks.peers

bench-park: $(DEV)  ## untuned fits beside a peer tuned in hindsight (tables in $$DPSCO_PARK)
	$(BIN)/python -m benchmarks.park

clean:  ## remove the environment and every generated file
	rm -rf $(VENV) $(OLD) $(SPARK) $(FLOWER) demo-output docs/_build docs/api docs/examples docs/project build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
