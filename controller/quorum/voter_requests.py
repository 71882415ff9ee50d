"""`VoterRequests` changes the voters and kraft.version at the leader: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter.

There is one change at a time; the rules are in `raft/voter_changes.py`. Source: Kafka's `AddVoterHandler`,
`RemoveVoterHandler`, `UpdateVoterHandler`, `LeaderState.maybeAppendUpgradedKRaftVersion`. Trio: a change waits for its
commit.
"""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import trio

from minikafka.controller.decisions.update_features import reason_to_refuse
from minikafka.controller.quorum.handshake import Hello
from minikafka.controller.quorum.membership import QuorumMembership
from minikafka.controller.quorum.peers import Unreachable
from minikafka.controller.quorum.raft_driver import RaftDriver
from minikafka.controller.raft.voter_set import (
    NO_DIRECTORY,
    ReplicaKey,
    Voter,
    VoterEndpoint,
    VoterSet,
)
from minikafka.protocol.errors import InvalidUpdateVersionError, KafkaError, RequestTimedOutError
from minikafka.protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from minikafka.protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from minikafka.protocol.messages.update_features import FeatureUpdateKey
from minikafka.protocol.messages.update_raft_voter import (
    CurrentLeader,
    UpdateRaftVoterRequest,
    UpdateRaftVoterResponse,
)

__all__ = ["VoterRequests"]


class VoterRequests:
    """The changes of the voters, in a dynamic quorum.

    Args:
        raft: the driver of this node, which should lead.
        membership: finds the nodes at their addresses.
        timeout_s: the timeout of a change whose request has none (`controller.quorum.request.timeout.ms`).
    """

    def __init__(self, raft: RaftDriver, membership: QuorumMembership, timeout_s: float) -> None:
        self._raft = raft
        self._membership = membership
        self._timeout_s = timeout_s
        self._is_busy = False

    @property
    def kraft_version(self) -> int:
        """The kraft.version. With version 0 the voters cannot be changed; only `set_kraft_version` may be called."""
        return self._raft.kraft_version

    async def answer(self, request: Any) -> Any:
        """Carry out a change and return the response, which has the error if there is one. After cancellation the
        change may be carried out or not."""
        try:
            if isinstance(request, AddRaftVoterRequest):
                await self._add(request)
                return AddRaftVoterResponse(error_message=None)
            if isinstance(request, RemoveRaftVoterRequest):
                await self._remove(request)
                return RemoveRaftVoterResponse(error_message=None)
            self._update(request)
            return UpdateRaftVoterResponse(current_leader=self._leader())
        except KafkaError as error:
            code, words = int(error.code), error.message
        if isinstance(request, AddRaftVoterRequest):
            return AddRaftVoterResponse(error_code=code, error_message=words)
        if isinstance(request, RemoveRaftVoterRequest):
            return RemoveRaftVoterResponse(error_code=code, error_message=words)
        return UpdateRaftVoterResponse(error_code=code, current_leader=self._leader())

    async def _add(self, request: AddRaftVoterRequest) -> None:
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        endpoints = tuple(VoterEndpoint(one.name, one.host, one.port) for one in request.listeners)
        timeout_s = request.timeout_ms / 1000 if request.timeout_ms > 0 else self._timeout_s
        async with self._alone(timeout_s):
            self._raft.check_new_voter(key)
            hello = await self._met(key, {one.name: (one.host, one.port) for one in endpoints})
            offset = self._raft.add_voter(Voter(key, endpoints, 0, hello.kraft_version_max))
            if request.ack_when_committed:
                await self._raft.wait_committed(offset)

    async def _met(self, key: ReplicaKey, endpoints: dict[str, tuple[str, int]]) -> Hello:
        try:
            return await self._membership.look_for(endpoints, key.id)
        except Unreachable as error:
            raise RequestTimedOutError(f"New voter {key} is not ready to receive requests") from error

    async def _remove(self, request: RemoveRaftVoterRequest) -> None:
        async with self._alone(self._timeout_s):
            offset = self._raft.remove_voter(ReplicaKey(request.voter_id, request.voter_directory_id))
            await self._raft.wait_committed(offset)

    def _update(self, request: UpdateRaftVoterRequest) -> None:
        """Update a voter's entry, without waiting for the commit, as in Kafka."""
        if self._is_busy:
            raise RequestTimedOutError
        endpoints = tuple(VoterEndpoint(one.name, one.host, one.port) for one in request.listeners)
        versions = request.k_raft_version_feature
        key = ReplicaKey(request.voter_id, request.voter_directory_id)
        low, high = versions.min_supported_version, versions.max_supported_version
        self._raft.update_voter(Voter(key, endpoints, low, high))

    async def set_kraft_version(self, update: FeatureUpdateKey, *, validate_only: bool) -> None:
        """Carry out the part of UpdateFeatures for kraft.version. Raises KafkaError."""
        level, current, membership = update.max_version_level, self._raft.kraft_version, self._membership
        if level == current:
            return
        invalid = f"Invalid update version {level} for feature {update.feature}."
        reason = reason_to_refuse(update, current, membership.node_id, (0, membership.kraft_version_max))
        if reason is not None:
            raise InvalidUpdateVersionError(f"{invalid} {reason}")
        if level < current:
            raise InvalidUpdateVersionError(
                f"{invalid} Invalid upgrade of kraft.version from version {current} to {level} because the new version "
                "is a downgrade"
            )
        await self._upgrade(validate_only=validate_only)

    async def _upgrade(self, *, validate_only: bool) -> None:
        """Upgrade kraft.version from 0 to 1, with the directory ids that the voters of the settings report.

        Raises:
            InvalidUpdateVersionError: a voter cannot be reached, or does not support version 1.
            KafkaError: see `Raft.upgrade`.
        """
        async with self._alone(self._timeout_s):
            found: list[Voter] = []
            for listed in self._membership.voter_set:
                try:
                    hello = await self._membership.look_for(None, listed.key.id)
                except Unreachable as error:
                    raise InvalidUpdateVersionError(
                        f"Invalid upgrade of kraft.version from version 0 to 1: {error}"
                    ) from error
                if hello.directory_id == NO_DIRECTORY and hello.kraft_version_max:
                    raise InvalidUpdateVersionError(
                        "Invalid upgrade of kraft.version from version 0 to 1: "
                        f"the directory id of node {listed.key.id} is not known"
                    )
                key = ReplicaKey(listed.key.id, hello.directory_id)
                found.append(replace(listed, key=key, max_version=hello.kraft_version_max))
            voters = VoterSet(found)
            self._raft.check_upgrade(voters)
            if not validate_only:
                await self._raft.wait_committed(self._raft.upgrade(voters))

    @asynccontextmanager
    async def _alone(self, timeout_s: float) -> AsyncIterator[None]:
        """Run a block that makes a change, one at a time and for `timeout_s` at most. Raises RequestTimedOutError."""
        if self._is_busy:
            raise RequestTimedOutError("Request timed out waiting for leader to handle previous voter change request")
        self._is_busy = True
        try:
            with trio.fail_after(timeout_s):
                yield
        except trio.TooSlowError:
            raise RequestTimedOutError from None
        finally:
            self._is_busy = False

    def _leader(self) -> CurrentLeader:
        leader = self._raft.leader_id
        voter = self._raft.voter_set.get(leader)
        host, port = (voter.endpoints[0].host, voter.endpoints[0].port) if voter and voter.endpoints else ("", 0)
        return CurrentLeader(leader_id=leader, leader_epoch=self._raft.epoch, host=host, port=port)
