# make demo: see it work. make test: check everything. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNEL := $(wildcard jeanie/kernel/cpp/*) CMakeLists.txt
PIP := $(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt

# Use real recordings if they lie beside the checkout; tests that need them are skipped otherwise.
ifneq ($(wildcard ../shared/data),)
export JEANIE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup browser web test lint stress sanitize demo docs pictures bench fuzz coverage release-check clean help always

help:
	@echo "make setup     install into $(VENV)"
	@echo "make demo      train, compare and recognise on synthetic motions; writes runs/demo"
	@echo "make test      lint, type checks and all tests"
	@echo "make docs      build the documentation; writes build/docs/html"
	@echo "make pictures  draw the pictures of the documentation; writes docs/pictures"
	@echo "make web       fetch the pose model and runtime of the page of jeanie serve from npm"
	@echo "make stress    repeat the process and timing tests 20 times under CPU load"
	@echo "make sanitize  run the alignment tests with AddressSanitizer and UBSan"
	@echo "make bench     compare speed with other libraries; writes benchmarks/results"
	@echo "make fuzz      read 20,000 damaged files with every reader"
	@echo "make coverage  run the tests and report the lines that they do not reach"
	@echo "make release-check  build the distributions, and install and try each in an empty environment"

setup: $(VENV)/ready

# An editable install knows only the modules that existed when it was made: install again after a change.
$(VENV)/module-names: always
	@mkdir -p $(VENV)
	@find jeanie -name '*.py' | sort > $@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@

$(VENV)/ready: pyproject.toml constraints.txt $(KERNEL) $(VENV)/module-names
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jeanie needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) torch
	$(PIP) --editable '.[dev]'
	touch $@

# The browser tests need Chromium. Root on Debian or Ubuntu gets it here; elsewhere the test report lists what did not run.
browser:
	@command -v chromium > /dev/null || command -v chromium-browser > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
	  && { apt-get install --yes --quiet chromium > /dev/null 2>&1 \
	    || { apt-get update --quiet > /dev/null && apt-get install --yes --quiet chromium > /dev/null; }; } } \
	  || echo "Chromium is missing: the browser tests will not run. Install the package chromium."

# The page of jeanie serve needs files from npm. Root on Debian or Ubuntu gets npm here.
web: setup
	@command -v npm > /dev/null || { [ "$$(id -u)" = 0 ] && command -v apt-get > /dev/null \
	  && { apt-get install --yes --quiet npm > /dev/null 2>&1 \
	    || { apt-get update --quiet > /dev/null && apt-get install --yes --quiet npm > /dev/null; }; } } || true
	@$(BIN)/python tools/web_files.py || echo "The page of jeanie serve has no pose model: its browser tests will not run."

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# One worker more than cores, because many tests wait for other processes; one thread each. A file is tested by one worker,
# so that its fixtures are made once; tests/conftest.py sorts the files. The processes that tests start load compiled modules.
WORKERS := $(shell $(PYTHON) -c 'import os; print(1 + (os.cpu_count() or 1))')
test stress: export OMP_NUM_THREADS = 1
test stress: export PYTHONDONTWRITEBYTECODE =
test: lint browser web
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder
	$(BIN)/pytest -n $(WORKERS) --dist loadfile --no-loadscope-reorder --sample 5 --jaxtyping-packages=jeanie,typecheck.check -m "not errors and not plain and not processes" --ignore tests/test_house.py -q

stress: setup
	$(BIN)/python tests/stress.py --rounds 20

sanitize: setup
	$(BIN)/python tests/alignment/sanitized.py

demo: setup
	$(BIN)/python examples/demo.py

# Strict: a broken link or a public name without a place in the reference is an error. Needs no network.
docs: setup
	PYTHONPATH=tools $(BIN)/python -m docsite.build

pictures: setup browser
	PYTHONPATH=tools $(BIN)/python -m pictures
	$(BIN)/python examples/synthetic_picture.py

bench: setup
	$(PIP) --editable '.[dev,bench]'
	$(BIN)/python benchmarks/align.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/train.py

fuzz: setup
	$(BIN)/python tests/fuzz.py --cases 20000
	$(BIN)/python tests/fuzz_bombs.py
	$(BIN)/pytest -q --explore tests/datasets/test_fuzz.py

coverage: export OMP_NUM_THREADS = 1
coverage: setup browser web
	$(BIN)/pytest -n 2 --cov --cov-report=term:skip-covered --cov-report=html:build/coverage

release-check: setup web
	$(PIP) --editable '.[dev,release]'
	$(BIN)/python tools/release_check.py

clean:
	rm -rf $(VENV) build dist runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
