# Two commands to learn: make run, make test.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test lint types bench boards reproduce install system-packages
run: $(VENV)/.runnable  ## a simulated DGX cluster and the daemon watching it
	$(BIN)/idlewatt demo

test: $(VENV)/.installed  ## everything but the benchmarks
	$(BIN)/pytest -q -n2 --dist loadgroup

bench: $(VENV)/.installed  ## the figures of the README, measured here
	$(BIN)/pytest -q -p no:xdist tests/benchmarks --benchmarks

boards: $(VENV)/.installed  ## the dashboards, from their code
	$(BIN)/python -m idlewatt.grafana.boards

reproduce: $(VENV)/.installed  ## published results beside ours, into the README; IDLEWATT_TRACES names the traces
	$(BIN)/idlewatt reproduce published --set into=README.md

lint: $(VENV)/.installed
	$(BIN)/ruff check .

types: $(VENV)/.installed  ## mypy sees the folders under their import names through one link
	mkdir -p build/types && ln -sfn ../.. build/types/idlewatt
	MYPYPATH=build/types $(BIN)/mypy

install: $(VENV)/.installed
$(VENV)/.runnable: setup.cfg pyproject.toml  # what the daemon needs, and no more
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install -q -e .
	touch $@
$(VENV)/.installed: $(VENV)/.runnable
	$(BIN)/pip install -q -e .[dev]
	touch $@

system-packages:  ## Debian packages that the tests on real parts need (root)
	apt-get update -q
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$(grep -v '^#' tests/stack/debian-packages.txt)
