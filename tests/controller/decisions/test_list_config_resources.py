"""ListConfigResources: resources by type and version."""

from typing import Any

from support.images import applied, cluster, name_of, with_topic

from minikafka.controller.decisions import list_config_resources
from minikafka.controller.metadata.image import Image
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.protocol.messages.list_config_resources import ListConfigResourcesRequest


def listed(image: Image, *kinds: int, version: int = 1) -> Any:
    request = ListConfigResourcesRequest(resource_types=list(kinds))
    response = list_config_resources.describe(image, request, version)
    resources = [(one.resource_name, one.resource_type) for one in response.config_resources]
    return name_of(response.error_code) if response.error_code else resources


def test_resources_are_listed_by_type() -> None:
    image = with_topic(cluster(), "t", (1,))
    applied([ConfigRecord(16, "m", "interval.ms", "1000"), ConfigRecord(32, "g", "a", "1")], image)
    assert listed(image) == [("g", 32), ("m", 16), ("1", 8), ("1", 4), ("t", 2)]
    assert listed(image, 2, 4) == [("1", 4), ("t", 2)]
    assert listed(image, version=0) == [("m", 16)]
    assert listed(image, 4, 3) == listed(image, 0) == "UNSUPPORTED_VERSION"
