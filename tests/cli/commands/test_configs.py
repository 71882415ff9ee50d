"""`minikafka configs`: settings with their sources, and quotas; Kafka's `kafka-configs` is the judge."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest
from support.command_line import Minikafka
from support.node import NodeProcess
from support.oracle import needs_oracle, tool

CONFIG_LINE = re.compile(r"^ {2}(\S+?)=(.*?) sensitive=(\w+) synonyms=\{(.*)\}$", re.MULTILINE)


def described(minikafka: Minikafka, *words: str) -> dict[str, Any]:
    """The settings of one resource, by name."""
    (one,) = json.loads(minikafka("configs", "describe", *words, "--json").out)
    return {setting["name"]: setting for setting in one["configs"]}


def test_settings_of_a_topic_with_their_sources(minikafka: Minikafka, topic: str) -> None:
    assert "retention.ms" not in described(minikafka, "topic", topic)
    changes = ("--set", "retention.ms=60000", "--set", "cleanup.policy=compact")
    ran = minikafka("configs", "alter", "topic", topic, *changes)
    assert (ran.code, ran.out) == (0, f"Altered 2 settings of topic {topic}.\n")
    found = described(minikafka, "topic", topic)
    assert (found["retention.ms"]["value"], found["retention.ms"]["set_by"]) == ("60000", "topic")
    policies = {"name": "log.cleanup.policy", "value": "delete", "set_by": "default"}
    assert found["cleanup.policy"]["synonyms"][1:] == [policies]
    shown = minikafka("configs", "describe", "topic", topic)
    assert shown.lines[0] == f"topic {topic}"
    assert ["retention.ms", "60000", "topic", "-"] in [line.split() for line in shown.lines]
    added = ("--append", "cleanup.policy=delete", "--delete", "retention.ms")
    assert minikafka("configs", "alter", "topic", topic, *added).code == 0
    assert described(minikafka, "topic", topic)["cleanup.policy"]["value"] == "compact,delete"
    assert minikafka("configs", "alter", "topic", topic, "--subtract", "cleanup.policy=compact").code == 0
    everything = described(minikafka, "topic", topic, "--all")
    assert everything["cleanup.policy"]["value"] == "delete"
    assert everything["retention.ms"]["set_by"] == "default"


def test_a_dry_run_changes_nothing_but_finds_errors(minikafka: Minikafka, topic: str) -> None:
    ran = minikafka("configs", "alter", "topic", topic, "--set", "retention.ms=60000", "--dry-run")
    assert (ran.code, ran.out) == (0, f"Would alter 1 setting of topic {topic}.\n")
    assert "retention.ms" not in described(minikafka, "topic", topic)
    wrong = minikafka("configs", "alter", "topic", topic, "--set", "retention.ms=soon", "--dry-run")
    assert (wrong.code, "Not a number of type LONG" in wrong.err) == (1, True)


def test_settings_of_one_broker_and_of_all(minikafka: Minikafka) -> None:
    assert described(minikafka, "broker", "1")["node.id"]["set_by"] == "server file"
    assert minikafka("configs", "alter", "broker", "1", "--set", "num.io.threads=12").code == 0
    assert minikafka("configs", "alter", "broker", "--default", "--set", "num.io.threads=9").code == 0
    found = described(minikafka, "broker", "1")["num.io.threads"]
    assert [(one["value"], one["set_by"]) for one in found["synonyms"]] == [
        ("12", "broker"),
        ("9", "cluster"),
        ("8", "default"),
    ]
    assert described(minikafka, "broker", "--default")["num.io.threads"]["value"] == "9"
    for words in (("1",), ("--default",)):
        ran = minikafka("configs", "alter", "broker", *words, "--delete", "num.io.threads", "--json")
        assert json.loads(ran.out)["altered"] == 1
    assert "num.io.threads" not in described(minikafka, "broker")


def test_settings_of_groups(minikafka: Minikafka, topic: str) -> None:
    words = ("configs", "alter", "group", topic)
    assert minikafka(*words, "--set", "consumer.session.timeout.ms=50000").code == 0
    found = described(minikafka, "group", topic)
    assert found["consumer.session.timeout.ms"]["set_by"] == "group"
    listed = json.loads(minikafka("configs", "describe", "group", "--json").out)
    assert topic in [one["name"] for one in listed]
    assert minikafka(*words, "--delete", "consumer.session.timeout.ms").code == 0
    assert minikafka("configs", "describe", "group", topic).out == f"group {topic}: all settings are at their default\n"


def test_quotas_of_clients_users_and_addresses(minikafka: Minikafka) -> None:
    alter = ("configs", "alter")
    assert minikafka(*alter, "client", "quota-app", "--set", "producer_byte_rate=1024").code == 0
    assert minikafka(*alter, "user", "--default", "--set", "request_percentage=12.5").code == 0
    pair = ("user", "alice", "--client-id", "quota-app")
    assert minikafka(*alter, *pair, "--set", "consumer_byte_rate=7", "--dry-run").code == 0
    assert minikafka("configs", "describe", *pair).out == "No quotas.\n"
    assert minikafka(*alter, *pair, "--set", "consumer_byte_rate=7").code == 0
    assert minikafka(*alter, "ip", "127.0.0.7", "--set", "connection_creation_rate=9").code == 0

    assert json.loads(minikafka("configs", "describe", "client", "quota-app", "--json").out) == [
        {"entity": {"client-id": "quota-app"}, "quotas": {"producer_byte_rate": 1024.0}}
    ]
    rows = [re.split(r" {2,}", line) for line in minikafka("configs", "describe", "user").lines[1:]]
    assert rows == [
        ["client-id quota-app, user alice", "consumer_byte_rate", "7"],
        ["all users", "request_percentage", "12.5"],
    ]
    row = minikafka("configs", "describe", "ip").lines[1].split()
    assert row == ["ip", "127.0.0.7", "connection_creation_rate", "9"]
    assert minikafka(*alter, *pair, "--delete", "consumer_byte_rate").code == 0
    assert minikafka(*alter, "user", "--default", "--delete", "request_percentage").code == 0
    assert minikafka("configs", "describe", "user").out == "No quotas.\n"


@pytest.mark.parametrize(
    ("words", "code", "error"),
    [
        (("alter", "topic", "TOPIC"), 2, "nothing to alter: give --set"),
        (("alter", "topic", "--set", "a=b"), 2, "which topic? Give its name"),
        (("alter", "client", "--set", "a=1"), 2, "which client? Give its name or --default"),
        (("alter", "client", "c", "--append", "a=1"), 2, "quotas are numbers, not lists"),
        (("alter", "client", "c", "--set", "producer_byte_rate=much"), 2, "a quota is a number"),
        (("alter", "client", "c", "--set", "bogus=1"), 1, "client-id 'c': Invalid configuration key bogus"),
        (("alter", "topic", "nowhere", "--set", "a=b"), 1, "topic 'nowhere' does not exist"),
        (("alter", "topic", "TOPIC", "--set", "bogus=1"), 1, "topic 'TOPIC': Unknown topic config name: bogus"),
        (("describe", "topic", "nowhere"), 1, "`minikafka topics list` lists all topics"),
        (("describe", "topic", "--default"), 2, "`configs alter broker --default` has"),
        (("describe", "broker", "77"), 1, "broker 77 is not a live broker of this cluster, which has 1"),
        (("describe", "broker", "one"), 2, "'one' is not the id of a broker"),
        (("describe", "broker", "1", "--default"), 2, "NAME and --default are mutually exclusive"),
        (("describe", "client", "a", "--client-id", "b"), 2, "--client-id is for users"),
        (("describe", "user", "--client-id", "b"), 2, "--client-id needs a user"),
    ],
)
def test_what_names_nothing_is_refused(
    minikafka: Minikafka, topic: str, words: tuple[str, ...], code: int, error: str
) -> None:
    ran = minikafka("configs", *(word.replace("TOPIC", topic) for word in words))
    assert (ran.code, ran.out) == (code, ""), ran
    assert error.replace("TOPIC", topic) in ran.err


@needs_oracle
@pytest.mark.oracle
@pytest.mark.slow
def test_kafka_configs_describes_the_same(minikafka: Minikafka, node: NodeProcess, topic: str) -> None:
    theirs = ("configs", "--bootstrap-server", node.bootstrap, "--describe")
    assert minikafka("configs", "alter", "topic", topic, "--set", "retention.ms=60000").code == 0
    printed = CONFIG_LINE.findall(tool(*theirs, "--topic", topic, "--all"))
    found = described(minikafka, "topic", topic, "--all")
    assert {name: value for name, value, _, _ in printed} == {name: one["value"] or "" for name, one in found.items()}
    assert {name: [one.partition(":")[2] for one in text.split(", ") if one] for name, _, _, text in printed} == {
        name: [f"{some['name']}={some['value']}" for some in one["synonyms"]] for name, one in found.items()
    }
    assert minikafka("configs", "alter", "client", "judged", "--set", "producer_byte_rate=1024").code == 0
    quotas = tool(*theirs, "--client", "judged")
    assert "Quota configs for client-id 'judged' are producer_byte_rate=1024.0" in quotas


@pytest.mark.parametrize("kind", ["topic", "topics alter", "group", "broker", "every broker"])
def test_a_mistyped_name_of_a_setting_to_reset_is_refused(minikafka: Minikafka, topic: str, kind: str) -> None:
    """Kafka resets what does not exist, and answers that it has."""
    assert minikafka("topics", "alter", topic, "--config", "retention.ms=9").code == 0
    words, option, right = {
        "topic": (("configs", "alter", "topic", topic), "--delete", "retention.ms"),
        "topics alter": (("topics", "alter", topic), "--delete-config", "retention.ms"),
        "group": (("configs", "alter", "group", topic), "--delete", "consumer.session.timeout.ms"),
        "broker": (("configs", "alter", "broker", "1"), "--delete", "num.io.threads"),
        "every broker": (("configs", "alter", "broker", "--default"), "--delete", "num.io.threads"),
    }[kind]
    wrong = minikafka(*words, option, right, option, f"{right}x")
    assert wrong.code == 1
    assert f"has no setting '{right}x' (did you mean '{right}'?); nothing was altered" in wrong.err
    assert described(minikafka, "topic", topic)["retention.ms"]["value"] == "9"
    assert minikafka(*words, option, right).code == 0
