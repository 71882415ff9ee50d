"""Registration of the broker of a standalone node: broker epochs and leader epochs."""

from dataclasses import replace

import pytest
from support.images import applied, state, three_brokers, topic_id, with_topic

from minikafka.controller.decisions import standalone_registration
from minikafka.controller.decisions.standalone_registration import Registration
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import FeatureRecord, PartitionChange


def registration(node_id: int) -> Registration:
    return Registration(node_id, bytes([node_id]) * 16, (("PLAINTEXT", "h", 1, "PLAINTEXT"),), "rack")


def test_a_standalone_broker_is_registered_unfenced_with_a_new_epoch() -> None:
    image = Image()
    epochs: list[int] = []
    for node_id in (1, 2, 1):
        decision = standalone_registration.decide(image, registration(node_id))
        applied(decision.records, image)
        epochs.append(decision.reply)
    assert epochs == [0, 1, 2]
    assert image.live_brokers() == [1, 2]
    assert image.brokers[1].endpoints == (("PLAINTEXT", "h", 1, "PLAINTEXT"),)
    assert image.brokers[1].rack == "rack"


@pytest.mark.parametrize(("level", "cordoned"), [(29, ()), (30, (bytes([1] * 16),))])
def test_directories_are_cordoned_from_the_metadata_version_on_that_has_it(
    level: int, cordoned: tuple[bytes, ...]
) -> None:
    image, directories = Image(), (bytes([1] * 16), bytes([2] * 16))
    applied([FeatureRecord("metadata.version", level)], image)
    asked = replace(registration(1), log_dirs=directories, cordoned=directories[:1])
    applied(standalone_registration.decide(image, asked).records, image)
    assert image.brokers[1].cordoned == cordoned


def test_a_standalone_broker_leads_again_in_a_new_leader_epoch() -> None:
    image = with_topic(with_topic(three_brokers(), "t", (1, 2), (2, 1)), "u", (1,))
    applied([PartitionChange(topic_id("u"), 0, leader=-1)], image)
    applied(standalone_registration.decide(image, registration(1)).records, image)
    assert (state(image).leader, state(image).leader_epoch) == (1, 1)
    assert (state(image, index=1).leader, state(image, index=1).leader_epoch) == (2, 0)
    assert (state(image, "u").leader, state(image, "u").leader_epoch) == (1, 2)


def test_after_a_clean_shutdown_leader_epochs_are_kept() -> None:
    image = with_topic(with_topic(three_brokers(), "t", (1, 2)), "u", (1,))
    applied([PartitionChange(topic_id("u"), 0, leader=-1)], image)
    applied(standalone_registration.decide(image, replace(registration(1), clean=True)).records, image)
    assert (state(image).leader, state(image).leader_epoch) == (1, 0)
    assert (state(image, "u").leader, state(image, "u").leader_epoch) == (1, 2)
