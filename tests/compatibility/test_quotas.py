"""Client quotas: the throttle times of Apache Kafka, with three samples of a second."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

import pytest
from support.node import NodeProcess, ServerProcess
from support.oracle import KAFKA_ITSELF, Oracle, needs_oracle
from support.quota_client import QuotaClient, api_versions, make_topic, set_quota

SETTINGS = {"quota.window.num": 3, "controller.quota.window.num": 3}
NODES = ["minikafka", pytest.param("kafka", marks=[*KAFKA_ITSELF, needs_oracle])]
WINDOW_MS = 2000
OVERHEAD_BYTES = 300
"""The most bytes of a Produce besides the value of its record."""
LATE_MS = 1500
"""By how much a busy machine may delay the requests of a test, which lowers rates and throttle times."""
RATE = 100_000
PRODUCER, CONSUMER, PERCENTAGE = "producer_byte_rate", "consumer_byte_rate", "request_percentage"


@pytest.fixture(scope="module", params=NODES)
def node(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    data_dir = tmp_path_factory.mktemp("quotas") / "data"
    kind = Oracle if request.param == "kafka" else NodeProcess
    with kind(data_dir, settings=SETTINGS) as running:
        yield running


@pytest.fixture
def written(node: ServerProcess, name: str) -> str:
    """A topic of one partition."""
    make_topic(node, name)
    return name


@pytest.fixture
def limit(node: ServerProcess) -> Iterator[Callable[[Mapping[str, str | None], str, float | None], None]]:
    """Sets quotas, and removes them after the test."""
    made: dict[tuple[tuple[str, str | None], ...], set[str]] = {}

    def set_one(entity: Mapping[str, str | None], key: str, value: float | None) -> None:
        made.setdefault(tuple(entity.items()), set()).add(key)
        set_quota(node, entity, key, value)

    yield set_one
    for entity, keys in made.items():
        for key in keys:
            set_quota(node, dict(entity), key, None)


Limit = Callable[[Mapping[str, str | None], str, float | None], None]


def client(name: str | None) -> Mapping[str, str | None]:
    return {"client-id": name}


def least_ms(size_bytes: int, rate: float = RATE) -> float:
    """The throttle time of a client that has used this much, without any overhead, all at once."""
    return (size_bytes / (WINDOW_MS / 1000) - rate) / rate * WINDOW_MS


def assert_throttled(throttle_ms: int, size_bytes: int, requests: int = 1, rate: float = RATE) -> None:
    most_ms = least_ms(size_bytes + requests * OVERHEAD_BYTES, rate)
    assert least_ms(size_bytes, rate) - (requests - 1) * LATE_MS <= throttle_ms <= most_ms + 1


def test_a_producer_is_throttled_until_its_bytes_fit_its_rate(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(written), PRODUCER, RATE)
    assert_throttled(QuotaClient(node, written).produce(written, 900_000), 900_000)
    assert_throttled(QuotaClient(node, written).produce(written, 100_000), 1_000_000, requests=2)
    assert QuotaClient(node, "another").produce(written, 900_000) == 0


def test_the_connection_is_muted_and_others_are_not(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(written), PRODUCER, RATE)
    throttled = QuotaClient(node, written)
    throttled.produce(written, 400_000)
    assert not throttled.is_answered_within(0.5)
    assert QuotaClient(node, written).is_answered_within(5)
    assert throttled.is_answered_within(5)


def test_acks_0_mutes_too(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(written), PRODUCER, RATE)
    throttled = QuotaClient(node, written)
    throttled.produce(written, 400_000, acks=0)
    assert not throttled.is_answered_within(0.5)


def test_what_was_measured_survives_a_change_of_the_quota(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(written), PRODUCER, RATE)
    QuotaClient(node, written).produce(written, 900_000)
    limit(client(written), PRODUCER, RATE / 2)
    assert_throttled(QuotaClient(node, written).produce(written, 0), 900_000, requests=2, rate=RATE / 2)


def test_without_any_quota_nothing_is_measured(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(written), PRODUCER, RATE)
    QuotaClient(node, written).produce(written, 400_000)
    limit(client(written), PRODUCER, None)
    assert QuotaClient(node, written).produce(written, 600_000) == 0
    limit(client(written), PRODUCER, RATE)
    assert_throttled(QuotaClient(node, written).produce(written, 0), 400_000, requests=2)


def test_beside_another_quota_all_is_measured(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client("another"), PRODUCER, RATE)
    assert QuotaClient(node, written).produce(written, 800_000) == 0
    limit(client(written), PRODUCER, RATE)
    assert_throttled(QuotaClient(node, written).produce(written, 0), 800_000, requests=2)


def test_a_fetch_is_cut_to_what_fits_and_is_empty_above(node: ServerProcess, name: str, limit: Limit) -> None:
    make_topic(node, name, sizes=(50_000,) * 9)
    assert QuotaClient(node, name).fetch(name)[1] > 450_000
    limit(client(name), CONSUMER, RATE)
    consumer = QuotaClient(node, name)
    assert consumer.fetch(name) == (1, 0)
    assert consumer.fetch(name) == (0, 200_000)
    throttle_ms, size_bytes = consumer.fetch(name)
    assert size_bytes == 0
    assert throttle_ms > 500


def test_a_percentage_throttles_every_request(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(written), PERCENTAGE, 0.0001)
    assert api_versions(QuotaClient(node, written)).throttle_time_ms == 1000
    assert QuotaClient(node, written).fetch(written) == (1000, 0)
    assert QuotaClient(node, written).produce(written, 10) == 1000
    without_acknowledgement = QuotaClient(node, written)
    without_acknowledgement.produce(written, 10, acks=0)
    assert without_acknowledgement.is_answered_within(0.5)


ALICE = "ANONYMOUS"
"""The user of every client here."""
PRECEDENCE: list[tuple[dict[str, str | None], ...]] = [
    ({"user": ALICE, "client-id": "c1"}, {"user": ALICE, "client-id": None}),
    ({"user": ALICE, "client-id": None}, {"user": ALICE}),
    ({"user": ALICE}, {"user": None, "client-id": "c1"}),
    ({"user": None, "client-id": "c1"}, {"user": None, "client-id": None}),
    ({"user": None, "client-id": None}, {"user": None}),
    ({"user": None}, {"client-id": "c1"}),
    ({"client-id": "c1"}, {"client-id": None}),
]


@pytest.mark.parametrize(("better", "worse"), PRECEDENCE, ids=map(str, range(1, 8)))
def test_the_closer_quota_holds(
    node: ServerProcess, written: str, limit: Limit, better: dict[str, str | None], worse: dict[str, str | None]
) -> None:
    mine = [
        {kind: written if name == "c1" else name for kind, name in entity.items()} for entity in (better, worse)
    ]
    limit(mine[1], PRODUCER, RATE / 10)
    limit(mine[0], PRODUCER, 5_000_000)
    throttle_ms = QuotaClient(node, written).produce(written, 400_000)
    limit(mine[0], PRODUCER, None)
    assert throttle_ms == 0
    assert QuotaClient(node, written).produce(written, 400_000) > 10_000


def test_an_empty_client_id_has_no_quota_of_client_ids(node: ServerProcess, written: str, limit: Limit) -> None:
    limit(client(None), PRODUCER, 1000)
    assert QuotaClient(node, "").produce(written, 500_000) == 0


def test_an_address_that_connects_too_often_is_closed_late(node: ServerProcess) -> None:
    admin, address = QuotaClient(node, "quota-admin"), {"ip": "127.0.0.1"}
    admin.set_quota(address, "connection_creation_rate", 5)
    try:
        clients = [QuotaClient(node, "many") for _ in range(12)]
        assert [client.is_closed_within(0) for client in clients] == [False] * 12
        assert all(client.is_answered_within(5) for client in clients[:10])
        assert clients[-1].is_closed_within(2)
    finally:
        admin.set_quota(address, "connection_creation_rate", None)


MUTATIONS = "controller_mutation_rate"
REFUSED = "THROTTLING_QUOTA_EXCEEDED"


def test_the_first_creation_passes_and_the_next_is_refused(node: ServerProcess, name: str, limit: Limit) -> None:
    limit(client(name), MUTATIONS, 1)
    asking = QuotaClient(node, name)
    assert asking.create((name, 10)) == (0, ["NONE"])
    throttle_ms, errors = asking.create((f"{name}-2", 1), (f"{name}-3", 1))
    assert errors == [REFUSED, REFUSED]
    assert 7000 - LATE_MS <= throttle_ms <= 7000
    for throttle_ms, errors in (
        QuotaClient(node, name).delete(name),
        QuotaClient(node, name).extend(name, 12),
        QuotaClient(node, name).create((f"{name}-2", 1), validate_only=True),
    ):
        assert errors == [REFUSED]
        assert throttle_ms > 7000 - 3 * LATE_MS
    invalid = QuotaClient(node, name).create((name, 1), ("!", 1))
    assert (invalid[0], sorted(invalid[1])) == (0, ["INVALID_TOPIC_EXCEPTION", "TOPIC_ALREADY_EXISTS"])
    assert not asking.is_answered_within(0.5)


def test_a_creation_is_refused_once_its_tokens_are_gone(node: ServerProcess, name: str, limit: Limit) -> None:
    limit(client(name), MUTATIONS, 1)
    throttle_ms, errors = QuotaClient(node, name).create(*((f"{name}-{number}", 2) for number in range(4)))
    assert errors == ["NONE", "NONE", REFUSED, REFUSED]
    assert 1000 - LATE_MS <= throttle_ms <= 1000
    limit(client(f"{name}-deleting"), MUTATIONS, 0.5)
    throttle_ms, errors = QuotaClient(node, f"{name}-deleting").delete(f"{name}-0", f"{name}-1", "unknown")
    assert errors == ["NONE", REFUSED, "UNKNOWN_TOPIC_OR_PARTITION"]


def test_older_requests_are_carried_out_and_throttled_afterwards(node: ServerProcess, name: str, limit: Limit) -> None:
    limit(client(name), MUTATIONS, 1)
    steps = [
        lambda asking: asking.create((name, 5), version=5),
        lambda asking: asking.create((f"{name}-2", 5), version=5),
        lambda asking: asking.delete(f"{name}-2", version=4),
        lambda asking: asking.extend(name, 6, version=2),
    ]
    for step, most_ms in zip(steps, (2000, 7000, 12_000, 13_000), strict=True):
        asking = QuotaClient(node, name)
        throttle_ms, errors = step(asking)
        assert errors == ["NONE"]
        assert most_ms - LATE_MS * 2 <= throttle_ms <= most_ms
        assert not asking.is_answered_within(0.2)
