# Every target does its own set-up: all it takes is Python 3.11 or later and a C++17 compiler.

PYTHON ?= python3
PYTEST_ARGS ?=
QUICK ?= --quick
# The oldest releases that pyproject.toml allows.
OLDEST := 'numpy==1.26.*' 'scikit-learn==1.6.*' 'scipy==1.11.*' 'threadpoolctl==3.1.*'

# The package is installed editable: changed Python is in force at once, only these need a new build.
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(wildcard cpp/*)

# Pictures go to files; no target needs a screen.
export MPLBACKEND := Agg

.PHONY: help demo reproduce test test-oldest lint bench clean

help:
	@echo "make demo         anneal a data set, print the levels, draw out/bifurcation.png"
	@echo "make reproduce    the paper's figures and table into out/reproduced (QUICK= for the full run)"
	@echo "make test         the whole test suite, newest releases"
	@echo "make test-oldest  the same, less what tests the algorithm itself or needs a browser, with the"
	@echo "                  oldest numpy, scipy and scikit-learn we support"
	@echo "make lint         ruff, mypy, import-linter"
	@echo "make bench        speed and quality beside other packages"
	@echo "make clean        remove environments, builds and caches"

demo: .venv/.installed-plot
	.venv/bin/python examples/demo.py

reproduce: .venv/.installed-all
	.venv/bin/annealed reproduce $(QUICK) --out out/reproduced

test: .venv/.installed-dev
	.venv/bin/python -m pytest --numprocesses auto $(PYTEST_ARGS)

test-oldest: .venv-oldest/.installed-dev
	.venv-oldest/bin/python -m pytest --numprocesses auto -m "not quality and not browser" \
	  --ignore src/annealed/river.py $(PYTEST_ARGS)

lint: .venv/.installed-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: .venv-bench/.installed-bench
	.venv-bench/bin/python -m benchmarks

# <environment>/.installed-<extra> stands for the package installed there with that extra.
STAMPS := .venv/.installed-plot .venv/.installed-all .venv/.installed-dev .venv-oldest/.installed-dev \
          .venv-bench/.installed-bench

# river is tested in its newest release only: older ones would have to be compiled.
.venv/.installed-dev: PINS := 'river>=0.21'
.venv-oldest/.installed-dev: PINS := $(OLDEST)

$(STAMPS): $(BUILD_INPUTS)
	@echo "Setting up $(@D): downloads, and compiles the core. This takes a minute or so."
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --editable '.[$(@F:.installed-%=%)]' $(PINS)
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-bench build dist out
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
