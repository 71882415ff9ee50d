"""The configs of brokers on disk: those of the snapshot, then those of the log, whether or not they are committed."""

from random import Random

from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.metadata_log import encode_decision
from minikafka.controller.metadata.records import ConfigRecord, FeatureRecord, Record
from minikafka.controller.quorum.raft_log import READ_SIZE, StoredRaftLog
from minikafka.controller.quorum.stored_configs import stored_configs
from minikafka.controller.settings.effective_settings import ResourceType
from minikafka.storage.disks.memory_disk import MemoryDisk
from minikafka.storage.log_config import LogConfig

STORE = "ssl.truststore.location"


def of_broker(value: str | None, broker: str = "1", name: str = STORE) -> ConfigRecord:
    return ConfigRecord(ResourceType.BROKER, broker, name, value)


def found(snapshot: list[Record], *decisions: list[Record]) -> dict[str, dict[str, str]]:
    """The configs by broker that are found in a log that follows a snapshot."""
    log = StoredRaftLog.open(MemoryDisk(Random(0)), "/data", LogConfig(retention_ms=-1), now_ms=lambda: 0)
    image = Image()
    for record in snapshot:
        image.apply(record)
    for decision in decisions:
        log.append_as_leader(encode_decision(decision, 0), 1)
    before = dict(image.configs)
    configs = stored_configs(log, image, "ssl.")
    assert image.configs == before
    assert set(configs.configs) <= {(ResourceType.BROKER, broker) for broker in ("", "1", "2")}
    return configs.configs_of(ResourceType.BROKER)


def test_the_last_value_counts_and_the_log_follows_the_snapshot() -> None:
    assert found([of_broker("a")]) == {"1": {STORE: "a"}}
    assert found([of_broker("a")], [of_broker("b")], [of_broker("c"), of_broker("d", "")]) == {
        "1": {STORE: "c"},
        "": {STORE: "d"},
    }
    assert found([of_broker("a")], [of_broker(None)]) == {}


def test_other_configs_and_records_are_left_out() -> None:
    others: list[Record] = [
        of_broker("1", name="max.connections"),
        ConfigRecord(ResourceType.TOPIC, "ssl.topic", "retention.ms", "ssl."),
    ]
    assert found(others, [FeatureRecord("ssl.", 1)], [*others, of_broker("a", "2")]) == {"2": {STORE: "a"}}


def test_a_log_that_is_longer_than_what_is_read_at_once_is_read_to_its_end() -> None:
    much = [of_broker("x" * 1000, name=f"listener.name.a.ssl.{number}") for number in range(100)]
    decisions = [much] * (READ_SIZE // 100_000 + 2)
    assert found([], *decisions, [of_broker("a")])["1"][STORE] == "a"
