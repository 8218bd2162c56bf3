# make demo: see it work. make test: check everything. Both set up .venv by themselves.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
KERNEL := $(wildcard jeanie/align/kernel/*) CMakeLists.txt

# Real recordings are used where they lie beside the checkout; elsewhere the tests that need them say so.
ifneq ($(wildcard ../shared/data),)
export JEANIE_DATA ?= $(abspath ../shared/data)
endif

.PHONY: setup test lint demo bench fuzz clean help always

help:
	@echo "make setup   install into $(VENV)"
	@echo "make demo    train, compare and recognise on synthetic motions, write runs/demo"
	@echo "make test    lint, types and every test"
	@echo "make bench   compare speed with other libraries, write benchmarks/results"
	@echo "make fuzz    20,000 damaged files through every reader"

setup: $(VENV)/ready

# an editable install knows the modules that were there: a new one needs another
$(VENV)/module-names: always
	@mkdir -p $(VENV)
	@find jeanie -name '*.py' | sort > $@.now
	@cmp -s $@.now $@ && rm $@.now || mv $@.now $@

$(VENV)/ready: pyproject.toml constraints.txt $(KERNEL) $(VENV)/module-names
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "jeanie needs Python 3.11 or newer")'
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

lint: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# two workers on two cores: more threads each would only wait for one another
test: export OMP_NUM_THREADS = 1
test: lint
	$(BIN)/pytest -n 2
	$(BIN)/pytest -n 2 --jaxtyping-packages=jeanie,beartype.beartype -m "not errors and not plain" -q

demo: setup
	$(BIN)/python examples/demo.py

bench: setup
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev,bench]'
	$(BIN)/python benchmarks/align.py
	$(BIN)/python benchmarks/data.py
	$(BIN)/python benchmarks/train.py

fuzz: setup
	$(BIN)/python tests/fuzz.py --cases 20000

clean:
	rm -rf $(VENV) build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
