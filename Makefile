SHELL := /bin/bash
.DEFAULT_GOAL := help
BIN := .venv/bin
# Spark's tests share a session, so a worker (tests/conftest.py), and it is busy nearly to the end: more than two would not be faster.
# In the order of testpaths: what takes minutes first, so that it does not end alone.
# In memory where there is plenty (5 GB): half of what a test waits for is a disk that syncs each of our commits.
TEMP := $(shell [ "$$(df -k --output=avail /dev/shm 2>/dev/null | tail -1)" -gt 5000000 ] 2>/dev/null && echo /dev/shm || echo $${TMPDIR:-/tmp})
# What it makes of the tests' assertions is kept as byte code, also for a user whose shell forbids that: each process would do it again.
PYTEST := PYTHONDONTWRITEBYTECODE= TMPDIR=$(TEMP) $(BIN)/python -m pytest -q --numprocesses 2 --dist loadgroup --no-loadscope-reorder

.PHONY: help setup demo airflow test test-fast lint types style imports collected format bench soak requirements clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## (.*)/  make \1|\2/' | column -t -s '|'

setup:  ## .venv with everything pinned, and Delta's JARs; nothing to do the second time
	@ops/setup.sh

demo: setup  ## real data at release 1.0.0, upgraded to 1.1.0 by the real DAG in Airflow
	@$(BIN)/python -m example.demo

airflow: setup  ## the same lake and DAGs in Airflow's web page, on this machine only
	@$(BIN)/python -m example.airflow_home

# Beside the types, which use one core, pytest rewrites the assertions of all tests for the workers.
test: setup  ## lint, types, import contracts, all tests but the soak tests
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types collected style imports
	@$(PYTEST) -m "not soak"

test-fast: setup  ## the tests that need neither a JVM, nor Airflow's database, nor whole upgrades; about a minute
	@$(PYTEST) -m "not spark and not airflow and not system and not soak" --ignore tests/unit/upgrade

lint: setup  ## ruff, mypy --strict, import contracts
	@$(MAKE) --no-print-directory --jobs 2 --output-sync=target types style imports

types:
	@$(BIN)/mypy

style:
	@$(BIN)/ruff check --quiet --output-format concise . && $(BIN)/ruff format --quiet --check . && echo "ruff: clean"

imports:
	@$(BIN)/lint-imports --no-cache | sed -n '/KEPT\|BROKEN\|^Contracts/p;/^Broken/,$$p'; exit $${PIPESTATUS[0]}

collected:
	@$(PYTEST) --numprocesses 0 --collect-only -m "not soak" >/dev/null 2>&1 || true

format: setup  ## ruff's formatter and its safe fixes
	@$(BIN)/ruff check --quiet --fix . ; $(BIN)/ruff format .

bench: setup  ## what it promises about speed, measured now, each figure next to its baseline (make bench copy: only this)
	@$(BIN)/python -m bench $(TOPICS)

# The words after `make bench` are its topics and no targets.
TOPICS := $(if $(filter bench,$(firstword $(MAKECMDGOALS))),$(wordlist 2,$(words $(MAKECMDGOALS)),$(MAKECMDGOALS)))
ifneq ($(TOPICS),)
.PHONY: $(TOPICS)
$(TOPICS): bench ;
endif

soak: setup  ## the tests that run for minutes: kills of real processes, every moment, races, stress, simulations
	@ops/browser.sh; ops/fab.sh
	@SCHEMAMIG_EXAMPLES=10 $(PYTEST) -m "soak or system or hypothesis" --timeout 1800 -o faulthandler_timeout=3600 tests

requirements: setup  ## requirements.txt again from requirements.in (needs the network)
	@$(BIN)/uv pip compile requirements.in -o requirements.txt --quiet --generate-hashes --universal --python-version 3.11 \
	  --no-header --no-annotate --no-emit-index-url

clean:  ## what demo, tests and builds leave behind; .venv stays
	@rm -rf .demo .airflow dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache spark-warehouse metastore_db derby.log
	@find . -path ./.venv -prune -o -name __pycache__ -type d -print0 | xargs -0 rm -rf
