"""Paths in URLs of files, as Kafka's settings of tokens have them."""

from __future__ import annotations

import pytest

from minikafka.protocol.sasl.file_urls import file_of_url


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("file:///etc/kafka/token", "/etc/kafka/token"),
        ("file:/etc/kafka/token", "/etc/kafka/token"),
        ("file:///with%20blank/%C3%A4", "/with blank/ä"),
        ("file:///", None),
        ("file:", None),
        ("file:token", None),
        ("/etc/kafka/token", None),
        ("http://etc/kafka/token", None),
        ("", None),
    ],
)
def test_the_path_of_a_url(url: str, path: str | None) -> None:
    assert file_of_url(url) == path
