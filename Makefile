# Every job of the project; each target installs what it needs into its own virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint format docs bench reproduce clean

demo: $(VENV)/.demo        ## CCA of digit halves on the command line; table, model, scores and report
	$(BIN)/genelin demo -o out/demo --force

test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: lint $(VENV)/.test   ## everything that must hold: lint, types, layers, tests, README, docstrings
	$(BIN)/python -m pytest -n 2 --dist worksteal tests src
	$(BIN)/python -m pytest README.md docs  # blocks of a document build on each other: one process

lint: $(VENV)/.lint        ## ruff, mypy --strict and the layers of the design
	$(BIN)/ruff check src tests examples benchmarks docs
	$(BIN)/ruff format --check src tests examples benchmarks docs
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint      ## let ruff rewrite what it can
	$(BIN)/ruff check --fix src tests examples benchmarks docs
	$(BIN)/ruff format src tests examples benchmarks docs

docs: export OMP_NUM_THREADS = 1
docs: export OPENBLAS_NUM_THREADS = 1
docs: export MKL_NUM_THREADS = 1
docs: $(VENV)/.docs        ## the documentation with its gallery, in docs/_build/html; warnings are errors
	$(BIN)/sphinx-build --builder html --nitpicky --fail-on-warning --keep-going --quiet docs docs/_build/html
	$(BIN)/python docs/check_links.py docs/_build/html
	@echo "The documentation is in docs/_build/html/index.html"

bench: $(VENV)/.test       ## the default against peers, growth of the solvers, row kernels; tables and JSON (long)
	$(BIN)/python benchmarks/default.py
	$(PIP) mpmath
	$(BIN)/python benchmarks/certificates.py
	$(BIN)/python benchmarks/plans.py
	$(BIN)/python benchmarks/products.py
	$(BIN)/python benchmarks/row_kernel.py
	$(BIN)/python benchmarks/solver_table.py
	$(BIN)/python benchmarks/many_rows.py
	$(BIN)/python benchmarks/csv_fit.py
	$(BIN)/python benchmarks/out_of_core.py
	$(BIN)/python benchmarks/dask_overhead.py
	$(BIN)/python benchmarks/cluster_plans.py

reproduce: $(VENV)/.demo   ## the paper's figures and tables, on its data where GENELIN_DATA has them
	$(BIN)/python -m genelin.experiments all

clean:
	rm -rf $(VENV) out build dist docs/_build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "genelin needs Python 3.11 or newer; name one with: make PYTHON=python3.12 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[cli,report,plot,io]"
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[test]"
	@touch $@

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[lint]"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[docs]"
	@touch $@
