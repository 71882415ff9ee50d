"""Passes JoinGroup, SyncGroup, Heartbeat and LeaveGroup to the code for the group's protocol, classic or consumer."""

from __future__ import annotations

from minikafka.broker.coordinator.decision import Ticket
from minikafka.broker.coordinator.error_mapping import coordinator_error
from minikafka.broker.coordinator.groups.classic.classic_join import join_group
from minikafka.broker.coordinator.groups.classic.classic_sync import sync_group
from minikafka.broker.coordinator.groups.classic.heartbeat_and_leave import heartbeat, leave_group
from minikafka.broker.coordinator.groups.classic.rebalance import join_error
from minikafka.broker.coordinator.groups.consumer.classic_members import (
    heartbeat_in_consumer_group,
    join_consumer_group,
    leave_consumer_group,
    sync_consumer_group,
)
from minikafka.broker.coordinator.groups.decision_builder import DecisionBuilder
from minikafka.broker.coordinator.groups.state.classic_member import Caller
from minikafka.protocol.messages.heartbeat import HeartbeatRequest
from minikafka.protocol.messages.join_group import JoinGroupRequest
from minikafka.protocol.messages.leave_group import LeaveGroupRequest
from minikafka.protocol.messages.sync_group import SyncGroupRequest

__all__ = ["heartbeat_either", "join_either", "leave_either", "sync_either"]


def join_either(builder: DecisionBuilder, request: JoinGroupRequest, caller: Caller, ticket: Ticket) -> None:
    """JoinGroup. An empty consumer group becomes a classic one; an unknown member only removes it (`forget`)."""
    group = builder.state.consumer_groups.get(request.group_id)
    if group is not None and group.members:
        join_consumer_group(builder, group, request, caller, ticket)
    elif group is None:
        join_group(builder, request, caller, ticket)
    elif request.member_id:
        builder.state.forget(group)
        join_group(builder, request, caller, ticket)
    else:
        for key, _ in group.tombstones():
            builder.write(key, None)
        builder.follow(
            lambda later: join_group(later, request, caller, ticket),
            lambda later, error: later.answer(ticket, join_error(coordinator_error(error))),
        )


def sync_either(builder: DecisionBuilder, request: SyncGroupRequest, ticket: Ticket) -> None:
    """Answer SyncGroup, by the protocol of the group."""
    group = builder.state.consumer_groups.get(request.group_id)
    if group is None:
        sync_group(builder, request, ticket)
    else:
        sync_consumer_group(builder, group, request, ticket)


def heartbeat_either(builder: DecisionBuilder, request: HeartbeatRequest, ticket: Ticket) -> None:
    """Answer Heartbeat, by the protocol of the group."""
    group = builder.state.consumer_groups.get(request.group_id)
    if group is None:
        heartbeat(builder, request, ticket)
    else:
        heartbeat_in_consumer_group(builder, group, request, ticket)


def leave_either(builder: DecisionBuilder, request: LeaveGroupRequest, ticket: Ticket) -> None:
    """Answer LeaveGroup, by the protocol of the group."""
    group = builder.state.consumer_groups.get(request.group_id)
    if group is None:
        leave_group(builder, request, ticket)
    else:
        leave_consumer_group(builder, group, request, ticket)
