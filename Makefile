# make help lists the targets. Everything runs from this folder; nothing is installed outside .venv, .cache and
# Debian's package manager.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.ONESHELL:
.DELETE_ON_ERROR:
MAKEFLAGS += --no-print-directory

PYTHON ?= python3.11
BIN := .venv/bin
# Where Kafka's jars are kept; a shared folder saves the download.
export MGW_CACHE ?= $(CURDIR)/.cache
STAMPS := .cache/stamps
# Hundreds of processes of the tests import the same modules. Compiled once, whatever Python was told before: to compile
# them costs a process of pytest five seconds, and an agent one.
unexport PYTHONDONTWRITEBYTECODE
# Tests that depend on the clock, or that damage brokers under load, run two files at once and nothing else. Of all other
# tests four files run at once, and Spark's tests in a separate process: while some wait for a broker, others work. Every
# process has its own brokers.
BY_THE_CLOCK := tests/faults tests/soak tests/conformance/test_supervisor.py
SIDE_BY_SIDE := tests/property \
  $(filter-out tests/property tests/pipelines $(BY_THE_CLOCK),$(sort $(shell find tests -name 'test_*.py' -printf '%h ')))

BY_FILE := --dist loadfile --no-loadscope-reorder
# By another name, as make -n runs every recipe in which it reads its own.
LINT := $(MAKE) lint
# What is run: a marker expression of pytest (pyproject.toml says what the markers mean).
test: CHOSEN := not matrix and not long
test-all: CHOSEN := not long
test-rest: CHOSEN := (matrix or examples) and not long
test: export MGW_FEWER_EXAMPLES := 1

# Every extra that does not just name others of our own: the lock file must not contain this package itself.
define LOCK_EXTRAS
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))["project"]
extras = project["optional-dependencies"]
print(*(f"--extra {name}" for name, needs in extras.items() if not any(need.startswith(f"{project['name']}[") for need in needs)))
endef
export LOCK_EXTRAS

.PHONY: help setup packages container-packages demo demo-spark test test-all test-rest lint format test-faults fuzz soak bench lock clean

help: ## show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: packages .venv/bin/python ## install everything that demo and tests need (repeated: under 2 s)
	@$(MAKE) -j2 $(STAMPS)/venv $(STAMPS)/archive $(STAMPS)/spark

packages: # Debian's packages may be removed between two runs, so this is no stamp; it takes milliseconds
	@tests/support/packages

container-packages:
	@tests/support/packages containers
test-all test-rest: | container-packages

.venv/bin/python: | packages
	@echo "setup: create .venv with $(PYTHON)"
	python=$$(command -v $(PYTHON) || command -v python3 || true)
	"$${python:?Python 3.11 or later is needed}" -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Python 3.11 or later is needed")'
	"$$python" -m venv .venv

$(STAMPS)/venv: .venv/bin/python requirements.lock pyproject.toml
	@echo "setup: install Python packages from requirements.lock"
	mkdir -p $(STAMPS)
	# Spark comes as a source archive of 450 MB, which is packed into a wheel only to be unpacked again.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock \
	  --config-settings=--build-option=--compression=stored
	# An environment from before has this package as "mgw"; uninstalled later, that would take the command along.
	$(BIN)/python -m pip uninstall --quiet --quiet --yes --disable-pip-version-check mgw
	PYTHONWARNINGS=ignore $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# Jars come while Python packages do; not both kinds at once, as Maven shares one folder.
$(STAMPS)/kafka: tests/support/kafka/pom.xml | .venv/bin/python
	@echo "setup: fetch Kafka through Maven"
	mkdir -p $(STAMPS)
	$(BIN)/python -c "from tests.support.kafka_jars import main; main()"
	touch $@

$(STAMPS)/archive: $(STAMPS)/kafka $(STAMPS)/venv
	@echo "setup: have Kafka start in half the time"
	$(BIN)/python -c "from tests.support.kafka_jars import make_archive; make_archive()"
	touch $@

$(STAMPS)/amqp: tests/support/amqp_client/pom.xml tests/support/amqp_client/AmqpClient.java | $(STAMPS)/kafka
	@echo "setup: fetch RabbitMQ's client for Java through Maven"
	$(BIN)/python -c "from tests.support.amqp_client import main; main()"
	touch $@

$(STAMPS)/spark: tests/support/spark/pom.xml | $(STAMPS)/amqp
	@echo "setup: fetch Spark's connectors through Maven"
	$(BIN)/python -c "from tests.support.spark_jars import main; main()"
	touch $@

demo: setup ## carry real messages between RabbitMQ, Kafka and MQTT, and check the result (KEEP=1: and go on, with a page)
	@KEEP=$(KEEP) $(BIN)/python -m tests.demo

demo-spark: setup ## bridge 200,000 messages, then measure, archive and audit them with Spark
	@$(BIN)/python -m tests.demo_spark

test: setup ## check style and types, prove each promise once on each broker and both databases
test-all: setup ## check style and types, run every test, and every fact in every combination
test-rest: setup # what test-all runs and test does not: .ci/run runs test first, and then this
test test-all test-rest:
	@tally=$$(mktemp) said=$$(mktemp) started=$$SECONDS status=0
	export MGW_TALLY=$$tally
	$(BIN)/pytest -q -m '$(CHOSEN)' tests/pipelines >$$said 2>&1 & spark=$$!
	trap 'kill $$spark 2>/dev/null || true; rm -f $$said $$tally' EXIT
	$(if $(filter test-rest,$@),,$(LINT))
	$(BIN)/pytest -q -n 4 $(BY_FILE) -m '$(CHOSEN)' $(SIDE_BY_SIDE) \
	  $(addprefix --ignore=,tests/pipelines $(BY_THE_CLOCK)) || status=$$?
	wait $$spark || status=$$?
	cat $$said
	$(BIN)/pytest -q -n 2 $(BY_FILE) -m '$(CHOSEN)' $(BY_THE_CLOCK) || status=$$?
	$(BIN)/python -m tests.support.tally $@ $$tally $$((SECONDS - started))
	exit $$status

lint: $(STAMPS)/venv ## check style and types
	@$(BIN)/ruff check --quiet
	$(BIN)/ruff format --check --quiet
	$(BIN)/mypy --no-error-summary

format: $(STAMPS)/venv ## format the code
	@$(BIN)/ruff check --quiet --fix || true
	$(BIN)/ruff format --quiet

test-faults: setup ## cut connections, kill processes and brokers for hours (make test does it a few times)
	@$(BIN)/pytest -q -m long --ignore=tests/soak tests

fuzz: SECONDS_EACH ?= 60
fuzz: setup ## damaged input for every parser, a minute each (SECONDS_EACH=60, MGW_FUZZ_SEED repeats a run)
	@MGW_FUZZ_SECONDS=$(SECONDS_EACH) $(BIN)/python -m tests.support.fuzz

soak: MINUTES ?= 60
soak: setup container-packages ## run the service under systemd for an hour (MINUTES=60) while brokers, disk and process fail
	@MGW_SOAK_MINUTES=$(MINUTES) $(BIN)/pytest -q -s -p no:logging -m long tests/soak

bench: setup ## benchmark the gateway and its peers in short forms, print one table of goals (an hour)
	@$(BIN)/python -m benchmarks

lock: .venv/bin/python ## resolve pyproject.toml into requirements.lock, with hashes
	@$(BIN)/python -c 'import piptools' 2>/dev/null || $(BIN)/python -m pip install --quiet --disable-pip-version-check pip-tools
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet --generate-hashes --strip-extras \
	  --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate \
	  $$($(BIN)/python -c "$$LOCK_EXTRAS") --output-file requirements.lock pyproject.toml
	CUSTOM_COMPILE_COMMAND="make lock" $(BIN)/python -m piptools compile --quiet --generate-hashes --strip-extras \
	  --allow-unsafe --no-emit-index-url --no-emit-trusted-host --no-emit-find-links --no-annotate --no-emit-options \
	  --constraint requirements.lock $(addprefix --extra=,rabbitmq kafka confluent mqtt postgres http otel) \
	  --output-file requirements-image.lock pyproject.toml
	echo "lock: $$(grep -c == requirements.lock) packages in requirements.lock, $$(grep -c == requirements-image.lock) of them in the image"

clean: ## remove everything that setup, tests and builds made here (not the cache of jars outside)
	@rm -rf .venv .cache build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
