"""The image: the same live, from the log, and from a snapshot with the rest of the log."""

from dataclasses import dataclass, fields
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.controllers import creation, image_of, with_controller
from support.images import applied, broker, cluster, topic_id, with_topic

from minikafka.controller.metadata.image import Image, Topic, copy_image
from minikafka.controller.metadata.records import (
    AclRecord,
    BrokerChange,
    ClientQuotaRecord,
    DelegationTokenRecord,
    FeatureRecord,
    PartitionChange,
    PartitionRecord,
    ProducerIdsRecord,
    Record,
    RemoveBroker,
    RemoveTopic,
    ScramRecord,
    TopicRecord,
)
from minikafka.controller.metadata.snapshot_encoding import decode_snapshot, encode_snapshot, records_of
from minikafka.controller.quorum_controller import QuorumController
from minikafka.protocol.messages import alter_client_quotas as quotas
from minikafka.protocol.messages import incremental_alter_configs as incremental
from minikafka.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from minikafka.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from minikafka.protocol.messages.delete_topics import DeleteTopicsRequest
from minikafka.protocol.messages.update_features import FeatureUpdateKey, UpdateFeaturesRequest
from minikafka.storage.disks.memory_disk import MemoryDisk

NAMES = st.sampled_from(["a", "b.c", "b_c", "d"])
VALUES = st.sampled_from(["1", "5000000", "compact", "x"])


def altering(kind: int, name: str, key: str, operation: int, value: str) -> Any:
    change = incremental.AlterableConfig(name=key, config_operation=operation, value=value)
    resource = incremental.AlterConfigsResource(resource_type=kind, resource_name=name, configs=[change])
    return incremental.IncrementalAlterConfigsRequest(resources=[resource], validate_only=False)


def limiting(user: str | None, value: float, remove: bool) -> Any:
    entity = quotas.EntityData(entity_type="user", entity_name=user)
    change = quotas.OpData(key="request_percentage", value=value, remove=remove)
    return quotas.AlterClientQuotasRequest(entries=[quotas.RequestEntryData(entity=[entity], ops=[change])])


def credential(user: str, remove: bool) -> Any:
    if remove:
        return AlterUserScramCredentialsRequest(deletions=[ScramCredentialDeletion(name=user, mechanism=1)])
    new = ScramCredentialUpsertion(name=user, mechanism=1, iterations=4096, salt=b"s", salted_password=b"p")
    return AlterUserScramCredentialsRequest(upsertions=[new])


REQUESTS = st.one_of(
    st.builds(lambda name, count: creation(name, partitions=count), NAMES, st.integers(-1, 4)),
    st.builds(lambda name: DeleteTopicsRequest(topic_names=[name], timeout_ms=1), NAMES),
    st.builds(
        lambda name, count: CreatePartitionsRequest(
            topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)], timeout_ms=1, validate_only=False
        ),
        NAMES,
        st.integers(1, 8),
    ),
    st.builds(
        altering,
        st.sampled_from([2, 4, 16, 32]),
        st.sampled_from(["a", "b.c", "1", "", "g"]),
        st.sampled_from(["retention.ms", "cleanup.policy", "log.cleaner.threads", "interval.ms"]),
        st.integers(0, 3),
        VALUES,
    ),
    st.builds(limiting, st.sampled_from(["u", None]), st.sampled_from([1.0, 0.5, -1.0]), st.booleans()),
    st.builds(credential, st.sampled_from("uv"), st.booleans()),
    st.builds(
        lambda level: UpdateFeaturesRequest(
            feature_updates=[FeatureUpdateKey(feature="metadata.version", max_version_level=level)]
        ),
        st.integers(28, 31),
    ),
    st.just("producer ids"),
)


async def carry_out(controller: QuorumController, requests: list[Any]) -> None:
    for request in requests:
        if request == "producer ids":
            await controller.allocate_producer_ids()
        else:
            await controller.handle(request, 5)


def run_controller(disk: MemoryDisk, requests: list[Any], snapshot_bytes: str) -> Image:
    async def use(controller: QuorumController) -> None:
        await carry_out(controller, requests)
        assert controller._active is not None
        assert controller.image == controller._active.term._decided

    return with_controller(disk, use, metadata_log_max_record_bytes_between_snapshots=snapshot_bytes)[0].image


@settings(max_examples=60, deadline=None)
@given(st.lists(REQUESTS, max_size=25), st.sampled_from(["1", "2000", "20971520"]), st.booleans())
def test_the_image_is_the_same_live_from_the_log_and_from_a_snapshot(
    requests: list[Any], snapshot_bytes: str, power_cut: bool
) -> None:
    disk = MemoryDisk(Random(0))
    live = run_controller(disk, requests, snapshot_bytes)
    if power_cut:
        disk.crash()
    again = image_of(disk)
    assert again == live
    assert list(again.topics) == list(live.topics)
    snapshot = applied(decode_snapshot(encode_snapshot(records_of(live))))
    assert snapshot == live
    assert list(snapshot.topics) == list(live.topics)


def test_a_snapshot_has_the_last_broker_epoch_and_eligible_leader_replicas() -> None:
    image = with_topic(cluster(broker(1, epoch=3), broker(2, epoch=9)), "t", (1, 2))
    changes = [PartitionChange(topic_id("t"), 0, isr=(), leader=-1, elr=(2,), last_known_elr=(1,))]
    applied([*changes, RemoveBroker(2, 9), BrokerChange(1, 3, in_controlled_shutdown=True)], image)
    again = applied(decode_snapshot(encode_snapshot(records_of(image))))
    assert again == image
    assert again.last_broker_epoch == 9
    assert (again.is_alive(1), again.may_lead(1)) == (True, False)


def test_a_snapshot_has_what_security_and_quotas_need_in_the_order_of_the_changes() -> None:
    acls = [AclRecord((2, name, 3, "User:a", "*", 3, permission)) for name in ("t", "s") for permission in (3, 2)]
    tokens = [DelegationTokenRecord(name, ("User", "a"), ("User", "b"), (("User", "c"),), 1, 3, 2) for name in "ba"]
    scram = [ScramRecord("a", mechanism, b"salt", b"stored", b"server", 4096) for mechanism in (1, 2)]
    limits = [ClientQuotaRecord((("user", name),), "producer_byte_rate", 5.0) for name in ("a", None)]
    image = applied([*acls, *tokens, *scram, *limits])
    again = applied(decode_snapshot(encode_snapshot(records_of(image))))
    assert again == image
    assert (list(again.acls), list(again.tokens)) == (list(image.acls), ["b", "a"])
    assert (len(again.acls), len(again.tokens), len(again.scram), len(again.quotas)) == (4, 2, 2, 2)


def test_a_partition_change_keeps_unnamed_fields() -> None:
    image = with_topic(cluster(broker(1), broker(2)), "t", (1, 2))
    applied([PartitionChange(topic_id("t"), 0, isr=(1,))], image)
    state = image.topics["t"].partitions[0]
    assert (state.isr, state.leader, state.leader_epoch, state.partition_epoch) == ((1,), 1, 0, 1)
    applied([PartitionChange(topic_id("t"), 0, leader=1)], image)
    state = image.topics["t"].partitions[0]
    assert (state.leader, state.leader_epoch, state.partition_epoch) == (1, 1, 2)


def test_a_topic_is_found_by_name_and_by_id_as_the_same() -> None:
    image = with_topic(cluster(), "t", (1,))
    assert image.topics["t"] is image.topics_by_id[topic_id("t")]


WRONG: dict[str, Record] = {
    "a topic that is there": TopicRecord(bytes(16), "t"),
    "a topic that is not there, removed": RemoveTopic(bytes(16)),
    "a partition of no topic": PartitionRecord(bytes(16), 0, (1,), (1,), 1),
    "a partition out of turn": PartitionRecord(topic_id("t"), 5, (1,), (1,), 1),
    "a change of no partition": PartitionChange(topic_id("t"), 7, leader=1),
    "an older registration": BrokerChange(1, epoch=7, fenced=True),
    "producer ids that were given": ProducerIdsRecord(1, 0, -5),
}


@pytest.mark.parametrize("record", WRONG.values(), ids=WRONG)
def test_a_record_that_does_not_fit_is_not_applied(record: Record) -> None:
    with pytest.raises((KeyError, IndexError, AssertionError)):
        applied([record], with_topic(cluster(), "t", (1,)))


def test_level_0_removes_a_feature() -> None:
    image = applied([FeatureRecord("a", 1), FeatureRecord("a", 0), FeatureRecord("b", 0)])
    assert image.features == {}


def test_only_registered_unfenced_brokers_are_alive() -> None:
    image = cluster(broker(2), broker(1), broker(3, fenced=True))
    assert image.live_brokers() == [1, 2]
    assert [image.is_alive(node_id) for node_id in (1, 3, 9)] == [True, False, False]


def test_a_copied_image_is_independent() -> None:
    image = Image()
    image.apply(FeatureRecord("x", 1))
    other = copy_image(image)
    other.apply(FeatureRecord("x", 2))
    assert (image.features, other.features) == ({"x": 1}, {"x": 2})
    with pytest.raises(AssertionError):
        image.apply(object())  # type: ignore[arg-type]


def test_a_copied_image_shares_no_dictionary() -> None:
    image = Image()
    other = copy_image(image)
    shared = [one.name for one in fields(Image) if getattr(image, one.name) is getattr(other, one.name)]
    assert shared == [one.name for one in fields(Image) if not isinstance(getattr(image, one.name), dict)]


@dataclass
class TopicWithMore(Topic):
    """A topic with another field, as a later version may have."""

    more: str = ""


def test_a_copied_image_has_all_of_a_topic_with_partitions_of_its_own() -> None:
    topic = TopicWithMore("t", bytes(16), [], more="kept")
    copy = copy_image(Image(topics={"t": topic})).topics["t"]
    assert copy == topic
    assert copy is not topic
    assert copy.partitions is not topic.partitions
