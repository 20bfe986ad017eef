# hazeglass: `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-from-pyproject
BASE := $(VENV)/.installed-base
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint audit trust bench oracles catalogues grids browser warehouse docs oldest package extras pythons coverage mutants bounds clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The environment lives in the checkout and is rebuilt only when pyproject.toml changes. A demo needs hazeglass alone, and
# what it does not import need not be compiled; the tools come on top of it when they are asked for.
$(BASE): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing hazeglass into $(VENV) (less than a minute the first time)"
	@$(BIN)/python -m pip install --quiet --no-compile --editable .
	@touch $@

$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing hazeglass and its tools into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $(BASE) $@

demo: $(BASE)  ## the whole journey, from made-up rows to a report (writes demo-out/)
	@rm -rf demo-out
	@$(BIN)/hazeglass demo --out demo-out

lint: $(STAMP)  ## ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > .venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }

test: lint  ## lint, then every test of the gate
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 --dist loadfile

trust: $(STAMP)  ## neighbours and other layouts of the same rows, in every combination (the gate runs a pairwise cover)
	@HAZEGLASS_TRUST=all HAZEGLASS_FRESH=1 OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -n 2 -p no:cacheprovider tests/trust tests/audit/test_mechanisms.py tests/glasso/test_indefinite.py tests/publisher/test_interrupts.py

audit: $(STAMP)  ## attack our own mechanisms (under three minutes)
	@$(BIN)/hazeglass audit --quick

browser: $(STAMP)  ## open the pages in headless Chromium: sliders, search, no network, accessibility
	@tests/browser/setup.sh
	@rm -rf build/browser
	@$(BIN)/python tests/browser/make_pages.py build/browser
	@cd tests/browser && HAZEGLASS=$(CURDIR)/$(BIN)/hazeglass HAZEGLASS_PAGES=$(CURDIR)/build/browser node --test --test-reporter=dot --test-concurrency=1 .

bench: $(STAMP) .venv-opendp/bin/pytest  ## measure against peers, in one run
	@for script in benchmarks/*.py; do echo "== $$script"; \
		HAZEGLASS_OPENDP_PYTHON=.venv-opendp/bin/python $(BIN)/python $$script || exit 1; done

# The oracles pin other versions of our dependencies, so each has an environment of its own.
.venv-dp-accounting/bin/pytest:
	@$(PYTHON) -m venv .venv-dp-accounting
	@.venv-dp-accounting/bin/pip install --quiet dp-accounting pytest pytest-timeout

.venv-opendp/bin/pytest:
	@$(PYTHON) -m venv .venv-opendp
	@.venv-opendp/bin/pip install --quiet opendp numpy scipy numba pytest pytest-timeout

ORACLE := -m pytest -q --noconftest -p no:cacheprovider
oracles: .venv-dp-accounting/bin/pytest .venv-opendp/bin/pytest  ## check the promise and the sampler against dp-accounting and OpenDP
	@PYTHONPATH=src .venv-dp-accounting/bin/python $(ORACLE) tests/oracles/dp_accounting_checks.py
	@PYTHONPATH=src .venv-opendp/bin/python $(ORACLE) tests/oracles/opendp_checks.py

.venv-catalogues/bin/pytest:
	@$(PYTHON) -m venv .venv-catalogues
	@.venv-catalogues/bin/pip install --quiet 'frictionless[parquet]' mlcroissant pyarrow pytest pytest-timeout

.venv-dpmm/bin/python:  # MST synthetic rows, for benchmarks/recovery.py and benchmarks/synthetic.py
	@$(PYTHON) -m venv .venv-dpmm
	@.venv-dpmm/bin/pip install --quiet dpmm

.venv-sdmetrics/bin/python:  # a judge of synthetic rows, for benchmarks/synthetic.py
	@$(PYTHON) -m venv .venv-sdmetrics
	@.venv-sdmetrics/bin/pip install --quiet sdmetrics

catalogues: $(STAMP) .venv-catalogues/bin/pytest  ## check datapackage.json and croissant.json with frictionless and mlcroissant
	@rm -rf build/catalogues
	@$(BIN)/python tests/oracles/make_bundles.py build/catalogues
	@HAZEGLASS_BUNDLES=build/catalogues .venv-catalogues/bin/python $(ORACLE) -W ignore tests/oracles/catalogue_checks.py

.venv-grid/bin/pytest:
	@$(PYTHON) -m venv .venv-grid
	@.venv-grid/bin/pip install --quiet --editable '.[grid,test]'

grids: .venv-grid/bin/pytest  ## make the two reconstructed grids again with pandapower and compare them with the files
	@.venv-grid/bin/python -m pytest -q -p no:cacheprovider tests/experiments/test_grids.py

# Engines that only this needs: PostgreSQL from the system's packages, and Spark, which wants Java.
WAREHOUSE_STAMP := .venv-warehouse/.installed-from-pyproject
$(WAREHOUSE_STAMP): pyproject.toml
	@test -x .venv-warehouse/bin/python || $(PYTHON) -m venv .venv-warehouse
	@.venv-warehouse/bin/python -m pip install --quiet --editable '.[warehouse,test]' 'ibis-framework[postgres]' pyspark
	@touch $@

warehouse: $(WAREHOUSE_STAMP)  ## sums from DuckDB, PostgreSQL and Spark against those from files (ten minutes)
	@tests/warehouse/run.sh .venv-warehouse/bin/python

# The documentation's tools do not belong in everybody's environment.
DOCS_STAMP := .venv-docs/.installed-from-pyproject
$(DOCS_STAMP): pyproject.toml
	@test -x .venv-docs/bin/python || $(PYTHON) -m venv .venv-docs
	@.venv-docs/bin/python -m pip install --quiet --editable '.[docs]'
	@touch $@

docs: $(DOCS_STAMP)  ## build the pages into build/docs/html and run the examples; any warning or dead link fails
	@.venv-docs/bin/python docs/layers.py docs/images/layers.svg
	@OMP_NUM_THREADS=1 .venv-docs/bin/sphinx-build -q -E -W --keep-going -b html docs build/docs/html
	@.venv-docs/bin/python docs/check_links.py build/docs/html

# What the floors in pyproject.toml promise, held to account. (The old starlette's test client wants the old httpx.)
OLDEST_STAMP := .venv-oldest/.installed-from-constraints
$(OLDEST_STAMP): pyproject.toml constraints/oldest.txt
	@test -x .venv-oldest/bin/python || $(PYTHON) -m venv .venv-oldest
	@.venv-oldest/bin/python -m pip install --quiet --constraint constraints/oldest.txt --editable '.[plot,dask,excel,studio,test]' httpx
	@touch $@

OLDEST_TESTS := tests/guarantee tests/features tests/bundle tests/publisher/test_plan.py tests/publisher/test_table.py \
	tests/publisher/test_moments.py tests/publisher/test_synthetic.py tests/publisher/test_dask.py tests/glasso/test_api.py \
	tests/analyst/test_recover.py tests/analyst/test_estimators.py tests/analyst/test_graph.py tests/audit/test_command.py tests/present tests/compute \
	tests/datasets tests/studio tests/cli tests/end_to_end/test_readme.py
oldest: $(OLDEST_STAMP)  ## the fast tests with the oldest dependencies that are promised
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 .venv-oldest/bin/python -m pytest -q -p no:cacheprovider -W default $(OLDEST_TESTS)

.venv-build/bin/twine:
	@$(PYTHON) -m venv .venv-build
	@.venv-build/bin/pip install --quiet build twine

package: .venv-build/bin/twine  ## build sdist and wheel, look into both, run the demo from the wheel with base dependencies only
	@rm -rf dist && mkdir -p build
	@.venv-build/bin/python -m build --outdir dist . > build/package.log 2>&1 || { cat build/package.log; exit 1; }
	@.venv-build/bin/twine check --strict dist/*
	@$(PYTHON) tests/packaging/contents.py dist
	@$(PYTHON) tests/packaging/extras.py dist/*.whl build/extras base

TORCH ?= torch
extras: package  ## the wheel with each extra alone in a clean environment (TORCH=... picks a smaller build of torch)
	@$(PYTHON) tests/packaging/extras.py dist/*.whl build/extras plot gpu grid dask excel warehouse studio --torch '$(TORCH)'

PYTHONS ?= python3.12 python3.13
pythons:  ## every test (or TESTS=...) with other Pythons: make pythons PYTHONS="python3.12 python3.13"
	@for python in $(PYTHONS); do \
		venv=.venv-$$(basename $$python); echo "== $$($$python --version)"; \
		$$python -m venv $$venv && $$venv/bin/python -m pip install --quiet --editable '.[dev]' && \
		OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $$venv/bin/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider $(TESTS) \
		|| exit 1; done

COVERAGE_STAMP := .venv/.coverage-installed
$(COVERAGE_STAMP): $(STAMP)
	@$(BIN)/python -m pip install --quiet 'pytest-cov>=7' 'coverage>=7.10'
	@touch $@

coverage: $(COVERAGE_STAMP)  ## line coverage of src/, package by package (slow: every test runs traced)
	@mkdir -p build
	@COVERAGE_FILE=$(CURDIR)/build/.coverage OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q --cov=hazeglass --cov-report=json:build/coverage.json --cov-report=
	@$(BIN)/python tests/coverage_by_package.py build/coverage.json

# MODULES="guarantee/gdp.py publisher/noise.py" and MOST=50 (mutants of a module, sampled) make it shorter.
MODULES = $(patsubst src/hazeglass/%,%,$(filter-out %/__init__.py,$(wildcard src/hazeglass/guarantee/*.py src/hazeglass/features/*.py src/hazeglass/publisher/*.py)))
MOST = 10000
MUTANT_TESTS := tests/guarantee tests/features tests/publisher tests/bundle tests/fuzz tests/trust tests/audit tests/cli tests/analyst/test_error_model.py
build/mutants/times.xml: $(COVERAGE_STAMP)
	@mkdir -p build/mutants
	@COVERAGE_FILE=$(CURDIR)/build/mutants/trace OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q -p no:cacheprovider --cov=hazeglass \
		--cov-context=test --cov-report= --junitxml=$@.part $(MUTANT_TESTS) && mv $@.part $@

mutants: build/mutants/times.xml  ## mutation testing of guarantee/, features/ and publisher/ (hours; docs/evidence/mutation.md)
	@OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python tests/mutation/run.py --trace build/mutants/trace \
		--times build/mutants/times.xml --out build/mutants --most $(MOST) $(MODULES)

# Compiled code does not look whether an index lies inside its array; numba can be told to.
BOUNDS_TESTS := $(addprefix tests/publisher/test_,$(addsuffix .py,noise clip rows table moments)) \
	tests/glasso tests/experiments/baselines
bounds: $(STAMP)  ## the tests of the compiled kernels with every index checked (two minutes)
	@NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/build/bounds OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -q -n 2 --dist loadfile -p no:cacheprovider $(BOUNDS_TESTS)

clean:  ## remove the environment and everything built
	rm -rf $(VENV) .venv-dp-accounting .venv-opendp .venv-catalogues .venv-dpmm .venv-sdmetrics .venv-grid .venv-docs .venv-oldest .venv-warehouse .venv-build .venv-python* docs/gallery docs/generated docs/images/layers.svg tests/browser/node_modules build dist demo-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
