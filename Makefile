# Two commands to learn: make run, make test.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin

.PHONY: run test test-long test-dependencies mutants lint types bench dashboards manifests docs docs-reference reproduce traces install system-packages system-packages-long dist deb rpm twice image sbom
run: $(VENV)/.runnable  ## a simulated DGX cluster and the daemon watching it
	$(BIN)/idlewatt demo

# Where the environment forbids Python to keep what it compiles, each worker and child would compile all of it anew.
test test-long: export PYTHONDONTWRITEBYTECODE =
test: $(VENV)/.installed  ## everything but long tests and benchmarks; six workers use the time in which others wait for Slurm and systemd
	$(BIN)/python -m compileall -q daemon exporters grafana storage systemd  # once, not by every process that starts
	$(BIN)/pytest -q -n6 --dist loadgroup --no-loadscope-reorder

test-long: $(VENV)/.installed  ## what takes hours: tests marked long with every example, a soak, a thousand jobs judged by Slurm, mutants
	$(BIN)/pytest -q -n7 --dist loadgroup --no-loadscope-reorder --long --timeout 3600
	$(BIN)/pytest -q -p no:xdist --benchmarks -s tests/benchmarks/test_soak.py tests/benchmarks/test_judge.py
	$(MAKE) mutants

test-dependencies:  ## a smoke set with the lowest and with the newest dependencies that setup.cfg allows
	$(PYTHON) tests/dependencies.py lowest build/lowest
	$(PYTHON) tests/dependencies.py newest build/newest

mutants: $(VENV)/.installed  ## whether the tests notice small changes of the code: a sample, in a copy of the tree
	test -x build/mutants/bin/cosmic-ray || ($(PYTHON) -m venv build/mutants && build/mutants/bin/pip install -q 'cosmic-ray>=8.3,<9')
	$(BIN)/python tests/mutants.py $(CURDIR)/build/mutants/bin/cosmic-ray $(CURDIR)/$(BIN)/python

bench: $(VENV)/.installed  ## the figures of docs/figures.md, measured here
	$(BIN)/pytest -q -p no:xdist tests/benchmarks --benchmarks

dashboards: $(VENV)/.installed  ## the dashboards, from their code
	$(BIN)/python -m idlewatt.exporters.reference
	$(BIN)/python -m idlewatt.grafana.builders

manifests: $(VENV)/.installed  ## the rules as a PrometheusRule, for systemd/kubernetes/monitoring
	$(BIN)/python systemd/kubernetes/rules.py > systemd/kubernetes/monitoring/rules.yaml

docs: $(VENV)/.installed  ## the documentation as a site, in build/site
	$(BIN)/mkdocs build --strict --quiet

docs-reference: $(VENV)/.installed  ## docs/{metrics,commands,configuration}.md, from the code
	$(BIN)/python -m idlewatt.exporters.reference
	$(BIN)/python -m idlewatt.daemon.cli._reference
	$(BIN)/python -m idlewatt.daemon.cli._pictures

dist: $(VENV)/.installed  ## wheel and source archive in build/dist, the same for the same commit, and their bill of materials
	PIP=$(CURDIR)/$(BIN)/pip systemd/packages/dist.sh . build/dist
	$(BIN)/twine check --strict build/dist/*.whl build/dist/*.tar.gz
	$(BIN)/python systemd/packages/sbom.py > build/dist/sbom.cdx.json

sbom: $(VENV)/.installed  ## bill of materials (CycloneDX) of what is installed here
	@$(BIN)/python systemd/packages/sbom.py

deb: $(VENV)/.installed  ## the Debian package, in build/packages; needs /usr/bin/python3.11
	PIP=$(CURDIR)/$(BIN)/pip systemd/packages/debian.sh . build/packages

rpm: $(VENV)/.installed  ## the RPM, in build/packages; needs rpmbuild
	PIP=$(CURDIR)/$(BIN)/pip systemd/packages/rpm.sh . build/packages

twice: $(VENV)/.installed  ## every package built twice in two folders, and compared byte by byte; takes a quarter of an hour
	PIP=$(CURDIR)/$(BIN)/pip systemd/packages/twice.sh . build/twice

image:  ## the container image localhost/idlewatt
	buildah build --tag idlewatt --file Containerfile .

traces:  ## the published traces are those that the figures were taken from; IDLEWATT_TRACES names another folder
	cd $${IDLEWATT_TRACES:-tests/traces} && sha256sum --check --quiet $(CURDIR)/tests/traces/SHA256SUMS

reproduce: $(VENV)/.installed  ## published results beside ours, into docs/research.md; IDLEWATT_TRACES names the traces
	$(BIN)/idlewatt reproduce published --set into=docs/research.md

lint: $(VENV)/.installed  ## style, and who may import whom (.importlinter)
	$(BIN)/ruff check .
	$(BIN)/lint-imports --no-logo

types: $(VENV)/.installed  ## mypy sees the folders under their import names through one link
	mkdir -p build/types && ln -sfn ../.. build/types/idlewatt
	MYPYPATH=build/types $(BIN)/mypy
	MYPYPATH=build/types:tests/stack:tests/daemon/replay:tests/daemon/agents:tests/daemon/learning:tests/benchmarks:tests/exporters/kubernetes $(BIN)/mypy \
		--config-file tests/mypy.ini --scripts-are-modules \
		$$(find tests -name '*.py' ! -name 'test_*' ! -name conftest.py) tests/benchmarks/test_*.py

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

system-packages-long: system-packages  ## Debian packages that make test-long needs besides (root)
	DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends $$(grep -v '^#' tests/stack/debian-packages-long.txt)
