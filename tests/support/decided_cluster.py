"""A cluster without network or log, for tests of decisions, which are applied at once."""

from collections.abc import Sequence
from random import Random
from typing import Any

from minikafka.controller.decisions import broker_fencing
from minikafka.controller.decisions.broker_sessions import BrokerSessions
from minikafka.controller.decisions.decision import RECORDS_MAX, Context, Decision
from minikafka.controller.decisions.request_table import DECISIONS
from minikafka.controller.metadata.image import Image, PartitionState
from minikafka.controller.metadata.records import ConfigRecord
from minikafka.protocol.messages import alter_partition as altering
from minikafka.protocol.messages import alter_partition_reassignments as moving
from minikafka.protocol.messages.alter_partition import AlterPartitionRequest, ResponsePartitionData
from minikafka.protocol.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from minikafka.protocol.messages.broker_registration import (
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)
from minikafka.protocol.messages.elect_leaders import ElectLeadersRequest, TopicPartitions
from support.images import CLUSTER_ID, applied, cluster, name_of, static, topic_id, with_topic

SESSION_MS = 1000


class DecidedCluster:
    """Image, broker sessions and a manual clock.

    Args:
        brokers: the brokers that are registered and unfenced.
        controllers: the ids of the voters.

    Attributes:
        image: the metadata after all decisions.
        offset: the number of records so far.
        now_ms: the time.
        own_epoch: the broker epoch of the process that decides, which is of node 1; -1 before it is registered.
    """

    def __init__(self, brokers: Sequence[int] = (1, 2, 3), controllers: Sequence[int] = ()) -> None:
        self.image: Image = cluster()
        del self.image.brokers[1]
        self.sessions = BrokerSessions(SESSION_MS, 300)
        self.offset = 0
        self.now_ms = 0
        self.own_epoch = -1
        self._incarnations = 0
        self._controllers = controllers
        for node_id in brokers:
            self.join(node_id)

    def context(self, version: int = 0) -> Context:
        return Context(
            static(),
            Random(0),
            version,
            {"root": "INFO"},
            self.sessions,
            self.now_ms,
            controllers=self._controllers,
            own_epoch=self.own_epoch,
        )

    def carry_out(self, decision: Decision[Any]) -> Any:
        """Apply the records; returns the reply."""
        assert len(decision.records) <= RECORDS_MAX
        applied(decision.records, self.image)
        self.offset += len(decision.records)
        return decision.reply

    def ask(self, request: Any, version: int = 0) -> Any:
        """Decide about a request."""
        return self.carry_out(DECISIONS[type(request)](self.image, request, self.context(version)))

    def state(self, name: str = "t", index: int = 0) -> PartitionState:
        return self.image.topics[name].partitions[index]

    def topic(
        self, *replicas: tuple[int, ...], name: str = "t", isr: tuple[int, ...] | None = None, **settings: str
    ) -> None:
        """Create a topic; settings are written with underscores for dots."""
        with_topic(self.image, name, *replicas, isr=isr)
        applied([ConfigRecord(2, name, key.replace("_", "."), text) for key, text in settings.items()], self.image)

    def registration(self, node_id: int, *, previous: int = -1, **other: Any) -> BrokerRegistrationRequest:
        self._incarnations += 1
        given = {
            "broker_id": node_id,
            "cluster_id": CLUSTER_ID,
            "incarnation_id": self._incarnations.to_bytes(16, "big"),
            "listeners": [Listener(name="PLAINTEXT", host="h", port=9091 + node_id, security_protocol=0)],
            "rack": None,
            "previous_broker_epoch": previous,
        }
        return BrokerRegistrationRequest(**{**given, **other})

    def register(self, node_id: int, *, previous: int = -1, **other: Any) -> BrokerRegistrationResponse:
        """Register a broker with a new incarnation; `other` changes fields of the request."""
        reply: BrokerRegistrationResponse = self.ask(self.registration(node_id, previous=previous, **other))
        if not reply.error_code:
            self.sessions.wrote(node_id, reply.broker_epoch, self.now_ms, self.offset)
        return reply

    def heartbeat(
        self, node_id: int, *, epoch: int | None = None, applied_to: int | None = None, **wants: Any
    ) -> BrokerHeartbeatResponse:
        """A heartbeat, by default of a broker that has applied everything."""
        epoch = self.epoch(node_id) if epoch is None else epoch
        done = self.offset if applied_to is None else applied_to
        before = self.offset
        self.sessions.contact(node_id, epoch, self.now_ms, done)
        request = BrokerHeartbeatRequest(broker_id=node_id, broker_epoch=epoch, current_metadata_offset=done, **wants)
        reply: BrokerHeartbeatResponse = self.ask(request)
        if self.offset > before:
            self.sessions.wrote(node_id, epoch, self.now_ms, self.offset)
        return reply

    def join(self, node_id: int, *, previous: int = -1) -> None:
        """Register a broker and unfence it."""
        assert not self.register(node_id, previous=previous).error_code
        self.heartbeat(node_id)

    def epoch(self, node_id: int) -> int:
        """The broker epoch; -1 if the broker is not registered."""
        broker = self.image.brokers.get(node_id)
        return -1 if broker is None else broker.epoch

    def fence(self, node_id: int) -> None:
        """Expire the broker's session."""
        self.sessions.forget(node_id)
        while self.carry_out(broker_fencing.decide(self.image, node_id, self.context())):
            pass

    def alter(
        self,
        isr: Sequence[int],
        *,
        name: str = "t",
        index: int = 0,
        sender: int | None = None,
        epochs: dict[int, int] | None = None,
        **given_epochs: int,
    ) -> ResponsePartitionData:
        """AlterPartition by the leader, by default with current epochs."""
        state = self.state(name, index)
        sender = state.leader if sender is None else sender
        given = {"leader_epoch": state.leader_epoch, "partition_epoch": state.partition_epoch, **given_epochs}
        brokers = [
            altering.BrokerState(broker_id=node, broker_epoch=(epochs or {}).get(node, self.epoch(node)))
            for node in isr
        ]
        data = altering.RequestPartitionData(partition_index=index, new_isr_with_epochs=brokers, **given)
        topics = [altering.RequestTopicData(topic_id=topic_id(name), partitions=[data])]
        reply = self.ask(AlterPartitionRequest(broker_id=sender, broker_epoch=self.epoch(sender), topics=topics), 3)
        data_of: ResponsePartitionData = reply.topics[0].partitions[0]
        return data_of

    def elect(self, *, unclean: bool = False, name: str = "t", index: int = 0) -> str:
        """The name of the error."""
        partitions = [TopicPartitions(topic=name, partitions=[index])]
        reply = self.ask(ElectLeadersRequest(election_type=int(unclean), topic_partitions=partitions))
        return name_of(reply.replica_election_results[0].partition_result[0].error_code)

    def reassign(self, replicas: Sequence[int] | None, *, name: str = "t", index: int = 0) -> str:
        """The name of the error."""
        wanted = None if replicas is None else list(replicas)
        partition = moving.ReassignablePartition(partition_index=index, replicas=wanted)
        topics = [moving.ReassignableTopic(name=name, partitions=[partition])]
        reply = self.ask(moving.AlterPartitionReassignmentsRequest(topics=topics))
        return name_of(reply.responses[0].partitions[0].error_code)
