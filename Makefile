# Two commands matter on a fresh machine: `make demo` and `make test`. Both set up what they need, once.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready

.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench soak pin clean

help:  ## say what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z]+):.*## /\1\t/' | expand -t 10

setup: $(READY)  ## make the virtual environment in .venv (three or four minutes, once)

$(READY): pyproject.toml infra/constraints.txt
	@sh infra/setup.sh $(PYTHON) $(VENV)
	@touch $@

demo: $(READY)  ## the whole pipeline on the demo language: data, training, translations, BLEU, report
	@$(BIN)/attn run demo

check: $(READY)  ## ruff, mypy --strict, quick tests (under two minutes)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile

test: check  ## everything this machine can run
	@$(BIN)/python -m pytest -m '(ray or slow) and not gpu and not soak'

bench: $(READY)  ## every figure we publish, as a ratio against its reference in the same run
	@for f in benchmarks/bench_*.py; do echo "== $$f"; $(BIN)/python $$f || exit 1; done

soak: $(READY)  ## long survival tests: every loss in every stage, dozens of kills over one training
	@$(BIN)/python -m pytest -m soak

pin:  ## the newest versions that pyproject.toml admits into infra/constraints.txt
	@rm -rf build/pin && $(PYTHON) -m venv build/pin
	@build/pin/bin/python -m pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@build/pin/bin/python infra/pin.py
	@git diff --stat infra/constraints.txt

clean:  ## remove the virtual environment and caches; the workspace is kept
	@rm -rf $(VENV) build .pytest_cache .mypy_cache .ruff_cache
