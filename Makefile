# Entry points for people. Each makes the environment in .venv when it is not there or out of date;
# nothing but Python >= 3.11 with its venv module is assumed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# What cxrflow is built on; each can be installed and tested alone.
PACKAGES := $(addprefix workflow_scripts/,cxr-files cxr-hospital cxr-labels)
PROJECTS := pyproject.toml $(PACKAGES:%=%/pyproject.toml)
STAMP := $(VENV)/.made-from-$(shell cat constraints.txt $(PROJECTS) 2>&1 | cksum | cut -d' ' -f1)
SNAKEMAKE := snakemake --cores all
# A relative folder of real data is relative to here, wherever a program runs. Recipes read it from
# the environment, and not by abspath or wildcard, which would take a blank in it for two names.
ifdef CXR_REAL_DATA
override export CXR_REAL_DATA := $(if $(filter /%,$(firstword $(CXR_REAL_DATA))),,$(CURDIR)/)$(CXR_REAL_DATA)
endif

export PATH := $(abspath $(BIN)):$(PATH)
.DEFAULT_GOAL := help
.PHONY: help env demo study real test lint docs results bench fuzz faults clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "make %-8s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

env: $(STAMP) ## make the environment in .venv

$(STAMP): constraints.txt $(PROJECTS)
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	    { echo "Python 3.11 or newer is needed, $(PYTHON) is $$("$(PYTHON)" -V 2>&1); try make PYTHON=/path/to/python3.11" >&2; exit 1; }
	@"$(PYTHON)" -c 'import venv, ensurepip' || \
	    { echo "$(PYTHON) lacks the venv module (Debian and Ubuntu: the package python3-venv)" >&2; exit 1; }
	test -x $(BIN)/python || "$(PYTHON)" -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -c constraints.txt $(PACKAGES:%=-e %) -e '.[dev]'
	rm -f $(VENV)/.made-from-*
	touch $@

demo: $(STAMP) ## a synthetic hospital, every stage, tables and the report page, on CPU
	$(SNAKEMAKE)
	@echo "The report page: $(CURDIR)/results/report/index.html"

study: $(STAMP) ## a larger hospital, trained longer: do the papers' rankings hold? some hours on CPU
	$(SNAKEMAKE) --configfile study.yaml
	@echo "The report page: $(CURDIR)/results/study/report/index.html"

# Without the folder nothing is installed before that is said.
real: ## the same stages on real data: make real CXR_REAL_DATA=folder
	@test -n "$$CXR_REAL_DATA" || { echo "usage: make real CXR_REAL_DATA=folder   (see docs/real_data.md)" >&2; exit 1; }
	@test -d "$$CXR_REAL_DATA" || { echo "$$CXR_REAL_DATA: no such folder" >&2; exit 1; }
	@$(MAKE) --no-print-directory env
	@test -e "$$CXR_REAL_DATA/open_i_pairs" || echo "no $$CXR_REAL_DATA/open_i_pairs: text encoders alone, without images, retrieval, findings and RSNA" >&2
	if test -e "$$CXR_REAL_DATA/open_i_pairs"; then $(SNAKEMAKE) --configfile real.yaml; \
	    else $(SNAKEMAKE) --configfile real_text.yaml; fi
	@echo "The report page: $(CURDIR)/results/real/report/index.html"

# Four processes for two cores: that of the workflow's tests and two of Slurm's wait for most of their time.
test: $(STAMP) ## all tests; what cannot run here says why
	python -m pytest -n 4 --dist loadscope --no-loadscope-reorder --durations 40 --durations-min 5

docs: $(STAMP) ## the documentation as a site, and its links checked: build/docs/index.html
	python workflow_scripts/cxr-labels/browser/build.py build/docs/label/index.html --pyodide build/pyodide
	sphinx-build --fail-on-warning --keep-going --quiet docs build/docs

results: $(STAMP) ## the documentation's tables of results, from the runs recorded in docs/results
	cxrflow render --records docs/results README.md docs/results.md

bench: $(STAMP) ## races against other software: make bench RACES='mlm_step grounding'
	python -m speed $(RACES)

fuzz: $(STAMP) ## damaged files against the programs that read them, minutes: make fuzz SEED=5 KINDS=dicom
	python -m fuzz --seed $(or $(SEED),1) $(KINDS)

faults: $(STAMP) ## every stage on a full disk, killed, and so on, hours: make faults DRAWS=2
	CXR_FAULTS=$(or $(DRAWS),1) python -m pytest -q tests/workflow/test_faults.py

lint: $(STAMP) ## ruff, mypy, snakefmt, snakemake --lint
	ruff check .
	ruff format --check .
	mypy
	snakefmt --check Snakefile rules
	snakemake --lint

clean: ## remove the products of the demo, keep the environment
	rm -rf results/[!R]* .snakemake
