# Every job of the project; each target installs what it needs into its own virtual environment.
PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# What ruff reads; what `make matrix` runs (core or all) and where (newest, lowest, 3.12 ...; default
# everywhere); how long the adversary plays, and which cases.
CODE    = src tests examples benchmarks docs fuzz tools
TESTS   = core
ONLY    =
SECONDS = 60
SEED    = 0

# Tests of `make check`: no file of them takes more than a few seconds.
QUICK = src tests/linalg tests/kernels tests/operators tests/baselines tests/data/test_out_of_core.py \
	tests/solvers/test_solvers.py tests/solvers/test_preconditioners.py tests/io/test_storage.py \
	tests/eigen/methods/test_methods.py tests/eigen/methods/test_dual_cca.py \
	tests/eigen/methods/test_shift_invert.py tests/eigen/planning tests/eigen/test_rescaling.py \
	tests/estimators/test_generalized_eigen.py tests/estimators/test_saving.py \
	tests/estimators/test_displays.py tests/test_validation.py tests/test_bad_input.py

.PHONY: help check coverage demo test lint format matrix prerelease fuzz dist docs bench reproduce clean

help:                      ## this list
	@grep -hE '^[a-z]+:.*##' Makefile | sed -E 's/:[^#]*## +/#/' | sort -u | column -t -s '#'

demo: $(VENV)/.demo        ## CCA of digit halves on the command line; table, model, scores and report
	$(BIN)/genelin demo -o out/demo --force

test: export OMP_NUM_THREADS = 1
test: export OPENBLAS_NUM_THREADS = 1
test: export MKL_NUM_THREADS = 1
test: lint $(VENV)/.test   ## everything that must hold: lint, types, layers, tests, README, docstrings
	$(BIN)/python -m pytest -n 2 --dist worksteal tests src
	$(BIN)/python -m pytest README.md docs  # blocks of a document build on each other: one process
	printf '%s\n' 0 1 | xargs -P 2 -I SEED $(BIN)/python -m fuzz --check --seed SEED

check: export OMP_NUM_THREADS = 1
check: export OPENBLAS_NUM_THREADS = 1
check: export MKL_NUM_THREADS = 1
check: lint $(VENV)/.test  ## lint, types, layers and the quick tests, in less than two minutes
	$(BIN)/python -m pytest -q -n 2 --dist worksteal $(QUICK)

coverage: $(VENV)/.test    ## lines that no test reaches, in out/coverage; kernels are compiled and not seen
	$(PIP) "coverage>=7.6" "pytest-cov>=6"
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --cov=genelin --cov-report=html:out/coverage --cov-report=term:skip-covered tests src

lint: $(VENV)/.lint        ## ruff, mypy --strict and the layers of the design
	$(BIN)/ruff check $(CODE)
	$(BIN)/ruff check --preview --select PLW1514 $(CODE)  # text files name their encoding: Windows differs
	$(BIN)/ruff format --check $(CODE)
	$(BIN)/mypy
	$(BIN)/lint-imports

format: $(VENV)/.lint      ## let ruff rewrite what it can
	$(BIN)/ruff check --fix $(CODE)
	$(BIN)/ruff format $(CODE)

matrix: | $(BIN)/python    ## core tests on every Python that is found, and on the lowest versions promised
	$(BIN)/python tools/matrix.py --tests $(TESTS) --only $(ONLY)

prerelease: | $(BIN)/python  ## core tests on prereleases of the dependencies: warns, fails nothing
	$(BIN)/python tools/matrix.py --tests $(TESTS) --only newest --pre

fuzz: export OMP_NUM_THREADS = 1
fuzz: export OPENBLAS_NUM_THREADS = 1
fuzz: export MKL_NUM_THREADS = 1
fuzz: $(VENV)/.test        ## hostile random problems, files and processes against every promise
	@mkdir -p out
	$(BIN)/python -m fuzz --seconds $(SECONDS) --seed $(SEED) --json out/fuzz.json

dist: $(VENV)/.dist        ## wheel and sdist in dist/, compared with the sources, installed and tested
	rm -rf dist build
	$(BIN)/python -m build --outdir dist
	$(BIN)/python -m twine check --strict dist/*
	$(BIN)/python tools/check_dist.py dist

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
	rm -rf $(VENV) .venv-matrix out build dist docs/_build docs/gallery docs/api/generated .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

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

$(VENV)/.dist: pyproject.toml | $(BIN)/python
	$(PIP) "build>=1.2" "twine>=6.1"
	@touch $@

$(VENV)/.lint: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[lint]"
	@touch $@

$(VENV)/.docs: pyproject.toml | $(BIN)/python
	$(PIP) -e ".[docs]"
	@touch $@
