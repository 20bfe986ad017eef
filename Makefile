# hazeglass: `make demo` and `make test` do all their own set-up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed-from-pyproject
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: help demo test lint audit bench oracles catalogues grids browser clean

help:  ## show this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

# The environment lives in the checkout and is rebuilt only when pyproject.toml changes.
$(STAMP): pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "installing hazeglass and its tools into $(VENV) (a few minutes the first time)"
	@$(BIN)/python -m pip install --quiet --editable '.[dev]'
	@touch $@

demo: $(STAMP)  ## the whole journey, from made-up rows to a report (writes demo-out/)
	@$(BIN)/hazeglass demo --out demo-out

lint: $(STAMP)  ## ruff, mypy --strict and the import contracts
	@$(BIN)/ruff check --quiet .
	@$(BIN)/ruff format --quiet --check .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports > .venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log; exit 1; }

test: lint  ## lint, then every test of the gate
	@OPENBLAS_NUM_THREADS=1 OMP_NUM_THREADS=1 $(BIN)/python -m pytest -q

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

catalogues: $(STAMP) .venv-catalogues/bin/pytest  ## check datapackage.json and croissant.json with frictionless and mlcroissant
	@rm -rf build/catalogues
	@$(BIN)/python tests/oracles/make_bundles.py build/catalogues
	@HAZEGLASS_BUNDLES=build/catalogues .venv-catalogues/bin/python $(ORACLE) -W ignore tests/oracles/catalogue_checks.py

.venv-grid/bin/pytest:
	@$(PYTHON) -m venv .venv-grid
	@.venv-grid/bin/pip install --quiet --editable '.[grid,test]'

grids: .venv-grid/bin/pytest  ## make the two reconstructed grids again with pandapower and compare them with the files
	@.venv-grid/bin/python -m pytest -q -p no:cacheprovider tests/datasets/test_reconstruct.py

clean:  ## remove the environment and everything built
	rm -rf $(VENV) .venv-dp-accounting .venv-opendp .venv-catalogues .venv-grid tests/browser/node_modules build dist demo-out .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
