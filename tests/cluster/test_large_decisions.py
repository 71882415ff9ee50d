"""Requests whose metadata records have many bytes, to a real node: the controller goes on.

Kafka's controller resigns at those that it cannot write (`RecordBatchTooLargeException`), and a lone one does not come
back.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.node import NodeProcess

from minikafka.client import Acl
from minikafka.client.blocking import Admin
from minikafka.protocol.errors import UnknownServerError

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
LONG = "x" * 25_000


@pytest.fixture
def node(tmp_path: Path) -> Iterator[NodeProcess]:
    settings = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with NodeProcess(tmp_path / "node", settings=settings) as made:
        yield made


def results(admin: Admin, count: int) -> set[type]:
    acls = [Acl("group", f"{count}-{number}{LONG}", "User:a", "read") for number in range(count)]
    return {type(error) for error in admin.create_acls(acls).values()}


def test_a_request_of_too_many_bytes_fails_alone(node: NodeProcess) -> None:
    with Admin(node.bootstrap) as admin:
        epoch = admin.describe_quorum().leader_epoch
        assert results(admin, 400) == {UnknownServerError}
        assert results(admin, 300) == {type(None)}
        assert len(admin.describe_acls()) == 300
        admin.create_topic("t")
        assert admin.describe_quorum().leader_epoch == epoch
    node.restart()
    with Admin(node.bootstrap) as admin:
        assert "t" in admin.list_topics()
        assert len(admin.describe_acls()) == 300
    assert "Traceback" not in node.log_path.read_text()
