"""What counts for which quota, and for how long clients are throttled, on a clock that the test sets."""

from __future__ import annotations

from support.authorized_node import ALICE, Grants, allow

from minikafka.broker.quotas.client_quotas import FETCH, PRODUCE, ClientQuotas
from minikafka.broker.quotas.request_meter import RequestMeter
from minikafka.controller.quotas.rates import Samples
from minikafka.controller.security.access import UNRESTRICTED, Access
from minikafka.protocol.acl_codes import CLUSTER_NAME, AclOperation, AclResourceType
from minikafka.protocol.messages.fetch import FetchRequest, FetchResponse, ReplicaState
from minikafka.protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from minikafka.protocol.messages.produce import ProduceRequest, ProduceResponse
from minikafka.protocol.messages.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

HEARTBEAT = b"\x00\x0c"


class World:
    """The quotas of a node with three samples of a second."""

    def __init__(self, **rates: float) -> None:
        self.now_s = 100.0
        self.quotas = ClientQuotas(Samples(3, 1000), lambda: self.now_s)
        self.set(**rates)

    def set(self, **rates: float) -> None:
        """The quotas of client id c1, instead of those before."""
        for key in ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate"):
            self.quotas.set((("client-id", "c1"),), key, rates.get(key))

    def meter(self, size_bytes: int = 100, client_id: str = "c1", took_s: float = 0.0) -> RequestMeter:
        meter = self.quotas.meter("ANONYMOUS", client_id, size_bytes, self.now_s)
        self.now_s += took_s
        return meter

    def produce(self, size_bytes: int, *, took_s: float = 0.0, acks: int = 1) -> int:
        response = ProduceResponse() if acks else None
        return self.meter(size_bytes, took_s=took_s).throttle(ProduceRequest(acks=acks), response, UNRESTRICTED)


def test_only_requests_that_a_quota_may_concern_are_counted() -> None:
    world = World()

    def counts(key: bytes) -> bool:
        return key in world.quotas.counted

    assert [counts(key) for key in (PRODUCE, FETCH, HEARTBEAT)] == [False, False, False]
    world.set(producer_byte_rate=1)
    assert [counts(key) for key in (PRODUCE, FETCH, HEARTBEAT)] == [True, False, False]
    world.set(consumer_byte_rate=1)
    assert [counts(key) for key in (PRODUCE, FETCH, HEARTBEAT)] == [False, True, False]
    world.set(request_percentage=1)
    assert [counts(key) for key in (PRODUCE, FETCH, HEARTBEAT)] == [True, True, True]
    world.set(controller_mutation_rate=1)
    assert [counts(key) for key in (PRODUCE, FETCH, HEARTBEAT)] == [False, False, False]


def test_the_bytes_of_a_produce_count_also_with_acks_0() -> None:
    world = World(producer_byte_rate=100_000)
    assert world.produce(900_000) == 7000
    assert world.produce(100_000, acks=0) == 8000


def test_a_longer_time_of_the_two_quotas_holds() -> None:
    world = World(producer_byte_rate=100_000, request_percentage=10)
    assert world.produce(220_000, took_s=0.5) == 1000
    assert world.produce(900_000, took_s=0.5) == (1_120_000 / 2.5 - 100_000) / 100_000 * 2500


def test_time_counts_in_percent_of_a_second_and_throttles_a_window_at_most() -> None:
    world = World(request_percentage=10)
    assert world.meter(took_s=0.2).throttle(HeartbeatRequest(), HeartbeatResponse(), UNRESTRICTED) == 0
    assert world.meter(took_s=0.05).throttle(HeartbeatRequest(), HeartbeatResponse(), UNRESTRICTED) == 450
    assert world.meter(took_s=5).throttle(HeartbeatRequest(), HeartbeatResponse(), UNRESTRICTED) == 1000


def test_time_does_not_count_without_acknowledgement_and_between_nodes() -> None:
    world = World(request_percentage=1)
    assert world.produce(100, took_s=1, acks=0) == 0
    of_follower = FetchRequest(replica_state=ReplicaState(replica_id=2))
    assert world.meter(took_s=1).throttle(of_follower, FetchResponse(), UNRESTRICTED) == 0
    assert world.meter(took_s=1).throttle(FetchRequest(replica_id=2), FetchResponse(), UNRESTRICTED) == 0
    assert world.meter(took_s=1).throttle(WriteTxnMarkersRequest(), WriteTxnMarkersResponse(), UNRESTRICTED) == 0
    assert world.produce(100, took_s=0) == 0
    assert world.meter(took_s=1).throttle(FetchRequest(), FetchResponse(), UNRESTRICTED) == 1000


def test_who_is_no_node_is_throttled_also_for_what_nodes_send() -> None:
    """A Fetch with the id of a replica, and WriteTxnMarkers, are refused to others, but cost time as well."""
    world = World(request_percentage=1)
    grants = Grants()
    stranger = Access(grants, ALICE)
    assert world.meter(took_s=1).throttle(FetchRequest(replica_id=2), FetchResponse(), stranger) == 1000
    assert world.meter(took_s=1).throttle(WriteTxnMarkersRequest(), WriteTxnMarkersResponse(), stranger) == 1000
    grants.granted = [allow(AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME)]
    assert world.meter(took_s=1).throttle(WriteTxnMarkersRequest(), WriteTxnMarkersResponse(), stranger) == 0
    assert world.meter(took_s=1).throttle(FetchRequest(replica_id=2), FetchResponse(), stranger) == 1000
    grants.granted = [allow(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)]
    assert world.meter(took_s=1).throttle(WriteTxnMarkersRequest(), WriteTxnMarkersResponse(), stranger) == 0
    assert world.meter(took_s=1).throttle(FetchRequest(replica_id=2), FetchResponse(), stranger) == 0


def test_the_time_of_a_wait_does_not_count() -> None:
    world = World(request_percentage=10)
    meter = world.meter(took_s=0.1)
    meter.waits()
    world.now_s += 60
    meter.resumes()
    assert meter.throttle(HeartbeatRequest(), HeartbeatResponse(), UNRESTRICTED) == 0


def test_the_time_after_a_wait_counts() -> None:
    world = World(request_percentage=10)
    meter = world.meter(took_s=0.2)
    meter.waits()
    world.now_s += 60
    meter.resumes()
    world.now_s += 0.05
    assert meter.throttle(HeartbeatRequest(), HeartbeatResponse(), UNRESTRICTED) == 500


def test_a_fetch_that_is_throttled_counts_no_bytes() -> None:
    world = World(consumer_byte_rate=100_000)
    assert world.meter().fetch_bytes_max() == 200_000
    meter = world.meter()
    assert meter.throttle_fetch(900_000) == 7000
    assert meter.throttle(FetchRequest(), None, UNRESTRICTED) == 0
    assert world.meter().throttle_fetch(200_000) == 0
    assert world.meter().throttle_fetch(1000) == 10


def test_a_fetch_of_a_client_without_quota_is_not_cut() -> None:
    world = World(consumer_byte_rate=100_000)
    assert world.meter(client_id="free").fetch_bytes_max() == (1 << 31) - 1
    assert world.meter(client_id="free").throttle_fetch(1 << 30) == 0


def test_what_was_measured_outlives_the_quota() -> None:
    world = World(producer_byte_rate=100_000)
    world.produce(900_000)
    world.set()
    world.set(producer_byte_rate=50_000)
    assert world.produce(0) == 16_000


def test_throttle_times_are_kept_for_the_metrics() -> None:
    world = World(producer_byte_rate=100_000)
    world.produce(900_000)
    world.produce(100_000)
    world.meter(client_id="free").throttle(ProduceRequest(acks=1), ProduceResponse(), UNRESTRICTED)
    [(sharers, usage)] = world.quotas.of_requests.produce.latest(10, world.now_s * 1000)
    assert sharers == ("", "c1")
    assert usage.mean_throttle_ms(world.now_s * 1000) == 7500
    assert usage.rate.measured(world.now_s * 1000) == 500_000
