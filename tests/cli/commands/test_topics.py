"""`minikafka topics` against a node; confluent-kafka checks the results."""

import json

from support.clients import Client, closing, eventually
from support.command_line import Minikafka

from minikafka.cli.commands.topics import description
from minikafka.client import ConfigEntry
from minikafka.client.connections.cluster_metadata import Partition, Topic


def test_create_with_partitions_and_settings(minikafka: Minikafka, judge: Client) -> None:
    ran = minikafka("topics", "create", "made", "--partitions", "3", "--config", "retention.ms=3600000")
    assert (ran.code, ran.out, ran.err) == (0, "Created topic made.\n", "")
    assert judge.topics()["made"] == 3
    assert judge.describe_settings("made")["retention.ms"] == "3600000"


def test_creating_an_existing_topic(minikafka: Minikafka, topic: str) -> None:
    ran = minikafka("topics", "create", topic)
    assert (ran.code, ran.err) == (1, f"Error: topic '{topic}': Topic '{topic}' already exists.\n")
    ran = minikafka("topics", "create", topic, "--if-not-exists")
    assert (ran.code, ran.out) == (0, f"Topic {topic} already exists.\n")


def test_errors_of_the_broker_are_reported_in_one_line(minikafka: Minikafka) -> None:
    for words in (["a b"], ["x", "--config", "no.such=1"], ["x", "--replication-factor", "9"]):
        ran = minikafka("topics", "create", *words)
        assert (ran.code, ran.out) == (1, "")
        assert ran.err.startswith("Error: topic ")
        assert ran.err.count("\n") == 1


def test_lists_are_aligned_and_can_be_json(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("topics", "list")
    assert ran.lines[0].split() == ["TOPIC", "PARTITIONS", "REPLICAS"]
    assert [topic, "1", "1"] in [line.split() for line in ran.lines]
    assert len({len(line) for line in ran.lines}) == 1
    listed = {one["name"]: one for one in json.loads(minikafka("topics", "list", "--json").out)}
    assert listed.keys() == {name for name in judge.topics() if not name.startswith("__")}
    assert listed[topic]["partitions"] == listed[topic]["replication_factor"] == 1


def test_internal_topics_are_listed_on_request(minikafka: Minikafka, judge: Client, topic: str) -> None:
    with closing(judge.member("somebody", [topic])) as member:
        eventually(lambda: member.poll(0.1) or "__consumer_offsets" in judge.topics())
    assert "__consumer_offsets" not in minikafka("topics", "list").out
    assert "__consumer_offsets" in minikafka("topics", "list", "--internal").out


def test_describe_shows_partitions_and_changed_settings(minikafka: Minikafka, judge: Client, topic: str) -> None:
    judge.alter_settings(topic, {"segment.bytes": "1048576"})
    judge.add_partitions(topic, total=2)
    ran = minikafka("topics", "describe", topic)
    assert ran.lines[0].startswith(f"{topic} (id ")
    rows = [line.split() for line in ran.lines]
    assert ["0", "1", "1", "1"] in rows
    assert ["1", "1", "1", "1"] in rows
    assert ["segment.bytes", "1048576", "topic"] in rows
    assert not any(row[:1] == ["retention.ms"] for row in rows)
    [found] = json.loads(minikafka("topics", "describe", topic, "--json").out)
    assert found["configs"]["segment.bytes"] == "1048576"
    assert [one["partition"] for one in found["partitions"]] == [0, 1]
    assert found["partitions"][0]["in_sync_replicas"] == [1]


def test_describe_without_names_shows_all_topics(minikafka: Minikafka, topic: str) -> None:
    assert topic in [one["name"] for one in json.loads(minikafka("topics", "describe", "--json").out)]


def test_description_of_leaderless_partitions_and_hidden_settings() -> None:
    lost = Topic("t", bytes(16), (Partition(0, -1, 3, (1, 2), ()),), is_internal=True)
    settings = [ConfigEntry("a", None, 4, sensitive=True), ConfigEntry("b", "", 99)]
    assert description(lost, settings) == [
        "t (id AAAAAAAAAAAAAAAAAAAAAA, 1 partition, internal)",
        "  PARTITION  LEADER  REPLICAS  IN SYNC",
        "          0  none    1,2       -",
        "",
        "  SETTING  VALUE     SET BY",
        "  a        (hidden)  server file",
        "  b        ''        ?",
    ]


def test_alter_partitions_and_settings(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("topics", "alter", topic, "--partitions", "4", "--config", "retention.ms=60000")
    assert ran.lines == [f"Altered 1 setting of topic {topic}.", f"Topic {topic} now has 4 partitions."]
    assert judge.topics()[topic] == 4
    assert judge.describe_settings(topic)["retention.ms"] == "60000"
    ran = minikafka("topics", "alter", topic, "--delete-config", "retention.ms")
    assert ran.code == 0
    assert judge.describe_settings(topic)["retention.ms"] == "604800000"
    ran = minikafka("topics", "alter", topic, "--partitions", "2")
    assert (ran.code, "2 would not be an increase" in ran.err) == (1, True)
    ran = minikafka("topics", "alter", topic)
    assert (ran.code, "nothing to alter" in ran.err) == (2, True)


def test_delete_continues_after_a_missing_topic(minikafka: Minikafka, judge: Client, topic: str) -> None:
    ran = minikafka("topics", "delete", "nowhere", topic)
    assert (ran.code, ran.out) == (1, f"Deleted topic {topic}.\n")
    assert "topic 'nowhere' does not exist at 127.0.0.1" in ran.err
    assert topic not in judge.topics()
    ran = minikafka("topics", "delete", topic, "--if-exists")
    assert (ran.code, ran.err) == (0, "")


def test_a_missing_topic(minikafka: Minikafka) -> None:
    for words in (["describe", "nowhere"], ["alter", "nowhere", "--partitions", "2"], ["delete", "nowhere"],
                  ["alter", "nowhere", "--config", "retention.ms=1"]):  # fmt: skip
        ran = minikafka("topics", *words)
        assert ran.code == 1
        assert "topic 'nowhere' does not exist at" in ran.err
        assert "`minikafka topics create nowhere` creates it" in ran.err
