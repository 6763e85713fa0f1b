# Every target makes .venv first. `make up` is the first command, `make test` the second.
PYTHON ?= python3
PY := .venv/bin/python
ENV ?= local
CONFIG ?= Pulumi.$(ENV).yaml
FORMAT ?= table

# Only a kubeconfig given on make's own command line counts: one that is exported in a shell may be of any cluster.
ifeq ($(origin KUBECONFIG),command line)
UP_FLAGS := --kubeconfig "$(KUBECONFIG)"
endif

.DEFAULT_GOAL := help
.PHONY: help up chat status down preflight test fast engine e2e modes software bench plan doctor lint lock

help: ## this list
	@grep -hE '^[a-z0-9_-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

up: .venv/.stamp ## one-node Kubernetes, the stack on it, one chat request; KUBECONFIG=PATH for a cluster of yours
	@$(PY) -m local up $(UP_FLAGS)

chat: .venv/.stamp ## talk to the model
	@$(PY) -m local.chat

status: .venv/.stamp ## what runs
	@$(PY) -m local status

down: .venv/.stamp ## take it all away: no process, mount, network device or firewall rule stays
	@$(PY) -m local down $(DOWN_FLAGS)

preflight: .venv/.stamp ## what would stop it; starts nothing: of this machine, or of an AWS account (ENV=dev)
ifeq ($(ENV),local)
	@$(PY) -m local preflight $(UP_FLAGS)
else
	@$(PY) -m components.preflight $(CONFIG)
endif

test: lint fast engine e2e software ## every test that CI runs, those on one-node clusters as well

fast: .venv/.stamp ## the tests that need neither the cluster nor the engines
	@$(PY) -m pytest -n auto

engine: .venv/.stamp ## the tests that the real Ray and vLLM judge, in the engine environment
	@$(PY) -m pytest -m engine tests/local tests/policies tests/serve_apps tests/engine

e2e: .venv/.stamp ## the tests on the one-node cluster
	@$(PY) -m pytest -m e2e --ignore=tests/e2e/software --ignore=tests/e2e/modes

modes: .venv/.stamp ## modes of serving on the one-node cluster: batch, plain vLLM, adapters, embeddings, scaling, upgrade, lost head, prefixes
	@$(PY) -m pytest -m e2e tests/e2e/modes

software: .venv/.stamp ## cluster software on a second one-node cluster: Helm hooks, Volcano's PodGroups, placement on simulated GPU nodes
	@$(PY) -m pytest -m e2e tests/e2e/software

bench: .venv/.stamp ## the plan and pulumi preview of 1 to 1000 services; the endpoint against bare vLLM, in turn
	@$(PY) -m local.bench.plan
	@$(PY) -m local.bench.preview
	@$(PY) -m local.bench.serving

# make itself ends with 2 when a command fails. In its question mode it ends with 1, and still runs the lines marked with +:
# so `make plan` and `make doctor` have the exit code of the command, 1 where there is an error.
ifneq ($(filter plan doctor,$(MAKECMDGOALS)),)
MAKEFLAGS += --question
endif
plan: ## what an environment means and what is wrong with it: ENV=dev or CONFIG=FILE, FORMAT=table|json|html, OUT=FILE; AGAINST=FILE: what an update does
	+@MAKEFLAGS= $(MAKE) --no-print-directory --silent .venv/.stamp >&2
	+@$(PY) -m components.plan $(CONFIG) --format $(FORMAT) $(if $(OUT),--output $(OUT)) $(if $(AGAINST),--against $(AGAINST))

ifeq ($(origin KUBECONFIG),command line)
DOCTOR := $(PY) -m components.doctor --kubeconfig "$(KUBECONFIG)"
else ifeq ($(ENV),local)
DOCTOR := eval "$$($(PY) -m local env)" && $(PY) -m components.doctor
else
DOCTOR := $(PY) -m components.doctor
endif
doctor: ## the plan against the live cluster, read only: ENV=dev or CONFIG=FILE, KUBECONFIG=PATH, FORMAT=table|json
	+@MAKEFLAGS= $(MAKE) --no-print-directory --silent .venv/.stamp >&2
	+@$(DOCTOR) $(CONFIG) --format $(FORMAT)

lint: .venv/.stamp ## ruff and its formatting, mypy --strict, import boundaries
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check --quiet .
	@$(PY) -m mypy
	@.venv/bin/lint-imports

lock: .venv/.stamp ## make the lock files again from pyproject.toml
	@.venv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	    --no-annotate --no-header --upgrade --group pyproject.toml:dev pyproject.toml -o requirements.lock
	@echo uv | .venv/bin/uv pip compile --quiet --generate-hashes --no-emit-index-url --no-annotate --no-header \
	    --upgrade - -o requirements-uv.lock

.venv/.stamp: requirements.lock requirements-uv.lock local/bootstrap.py
	@command -v $(PYTHON) >/dev/null || { apt-get update -qq && apt-get install -y --no-install-recommends python3 python3-venv; }
	@$(PYTHON) local/bootstrap.py
