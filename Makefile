# Every target does its own set-up: all it takes is Python 3.11 or later and a C++17 compiler.

PYTHON ?= python3
PYTEST_ARGS ?=
QUICK ?= --quick
# Interpreters that `make wheels` builds for and tries, if they are here.
PYTHONS ?= python3.11 python3.12 python3.13 python3.14
# The oldest releases that pyproject.toml allows.
OLDEST := 'numpy==1.26.*' 'scikit-learn==1.6.*' 'scipy==1.11.*' 'joblib==1.2.*' 'threadpoolctl==3.1.*'

# The package is installed editable: changed Python is in force at once, only these need a new build.
BUILD_INPUTS := pyproject.toml CMakeLists.txt $(wildcard cpp/*.hpp cpp/bindings/*)

# Pictures go to files; no target needs a screen.
export MPLBACKEND := Agg
# Environments are set up without bytecode; what is imported is compiled once and then kept, also where
# the shell asks for no bytecode (every process would compile scikit-learn again: 4.4 s, not 1.6 s).
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help environments demo reproduce test test-thorough test-oldest lint bench docs \
        docs-quick wheels bare-debian clean

help:
	@echo "make demo         anneal a data set, print the levels, draw out/bifurcation.png"
	@echo "make reproduce    the paper's figures and table into out/reproduced (QUICK= for the full run)"
	@echo "make test         the whole test suite, newest releases"
	@echo "make test-thorough  the same with every seed, file and example: about half an hour"
	@echo "make test-oldest  what concerns numpy and scikit-learn, with the oldest we support"
	@echo "make lint         ruff, mypy, import-linter"
	@echo "make bench        speed and quality beside other packages"
	@echo "make docs         the documentation site into build/docs/html, with the gallery"
	@echo "make docs-quick   the same without running the examples"
	@echo "make wheels       wheels and source distribution into dist/, each tried without a compiler"
	@echo "make bare-debian  the same wheels in bare Debian trees (root, debootstrap)"
	@echo "make clean        remove environments, builds and caches"

demo: .venv/.installed-plot
	.venv/bin/python examples/demo.py

reproduce: .venv/.installed-all
	.venv/bin/annealed reproduce $(QUICK) --out out/reproduced

# A file goes to one worker: what its tests share (fitted models, a browser, a run of `annealed
# reproduce`) is made once. In their order: the last ones, where a worker may have to wait, are small.
PYTEST := -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder

# There is a worker for each core already, and threads of BLAS and OpenMP wait by spinning: with one
# each the suite takes three quarters of the processor's time. Tests of threads say how many they want.
test test-thorough test-oldest: export OMP_NUM_THREADS := 1

test: .venv/.installed-dev
	.venv/bin/python $(PYTEST) $(PYTEST_ARGS)

test-thorough: .venv/.installed-dev
	HYPOTHESIS_PROFILE=thorough .venv/bin/python $(PYTEST) $(PYTEST_ARGS)

# Where numpy, scikit-learn, scipy, joblib and threadpoolctl are called; what commands, pictures and pages
# do with them, the estimators do too. Doctests are those of the newest releases, which print numbers
# in their own way.
OLDEST_TESTS := $(addprefix tests/,estimators tables persistence kernels datasets test_imports.py \
                                   test_threads.py)
test-oldest: .venv-oldest/.installed-test
	.venv-oldest/bin/python $(PYTEST) -m "not quality and not browser" $(OLDEST_TESTS) $(PYTEST_ARGS)

lint: .venv/.installed-dev
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports

bench: .venv-bench/.installed-bench
	.venv-bench/bin/python -m benchmarks

# Warnings are errors, and so is a link that leads nowhere, a page that fetches something, or a public
# name that is not in the reference.
SPHINX = .venv/bin/python -m sphinx --fail-on-warning --keep-going --quiet -d build/docs/trees

docs: .venv/.installed-dev
	rm -rf build/docs docs/gallery docs/reference/generated
	$(SPHINX) docs build/docs/html
	.venv/bin/python .ci/check_site.py build/docs/html
	@echo "build/docs/html/index.html"

docs-quick: .venv/.installed-dev
	rm -rf build/docs docs/gallery docs/reference/generated
	$(SPHINX) -D plot_gallery=0 docs build/docs/html
	.venv/bin/python .ci/check_site.py build/docs/html

wheels: .venv-wheels/.installed
	.venv-wheels/bin/python .ci/wheels.py $(PYTHONS)

bare-debian:
	.ci/bare_debian bookworm trixie

# The tools alone, without the package.
.venv-wheels/.installed: pyproject.toml
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python $(PIP_INSTALL) --upgrade 'pip>=25.1'
	$(@D)/bin/python $(PIP_INSTALL) --group wheels
	touch $@

# <environment>/.installed-<extra> stands for the package installed there with that extra.
STAMPS := .venv/.installed-plot .venv/.installed-all .venv/.installed-dev .venv-oldest/.installed-test \
          .venv-bench/.installed-bench

# <environment>/.needed-<extra>: what the package needs with that extra is there, without the package.
NEEDED := $(subst .installed-,.needed-,$(STAMPS))

# river is tested in its newest release only: older ones would have to be compiled.
.venv/.needed-dev: PINS := 'river>=0.21'
.venv-oldest/.needed-test: PINS := $(OLDEST)

# What CI needs; with --jobs 2 the core is compiled while what the package needs is fetched.
environments: .venv/.installed-dev .venv-oldest/.installed-test

# Modules are compiled to bytecode as they are imported, not all of them beforehand: most never are.
PIP_INSTALL := -m pip install --quiet --no-compile

$(NEEDED): pyproject.toml .ci/requirements.py
	@echo "Setting up $(@D): downloads what the package needs."
	test -x $(@D)/bin/python || $(PYTHON) -m venv $(@D)
	$(@D)/bin/python .ci/requirements.py $(@F:.needed-%=%) >$@.txt
	$(@D)/bin/python $(PIP_INSTALL) --requirement $@.txt $(PINS)
	touch $@

$(foreach stamp,$(STAMPS),$(eval $(stamp): $(subst .installed-,.needed-,$(stamp))))
$(STAMPS): build/wheel/.built
	$(@D)/bin/python $(PIP_INSTALL) --force-reinstall --no-deps build/wheel/*.whl
	touch $@

# The wheel of an editable install, compiled once for all environments: the core depends on no
# version of numpy. The environment it is built in is kept, so that only what changed is compiled.
build/wheel/.built: $(BUILD_INPUTS)
	@echo "Compiling the core. This takes a minute or two."
	test -x .venv-build/bin/python || $(PYTHON) -m venv .venv-build
	mkdir -p $(@D)
	.venv-build/bin/python .ci/editable_wheel.py $(@D) >build/log 2>&1 || { cat build/log; false; }
	touch $@

clean:
	rm -rf .venv .venv-oldest .venv-bench .venv-build .venv-wheels build dist out
	rm -rf docs/gallery docs/reference/generated docs/reference/commands.md examples/out
	rm -rf .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
