"""Planted bugs of controllers and group coordinators in whole clusters: failover, sessions, snapshots, old metadata."""

from mutations import STORY_ONLY, Mutation

_BUGS = "tests/simulation/test_published_bugs.py"
_NODES = "tests/simulation/test_node_stories.py"
_COORDINATION = "tests/simulation/test_coordination_stories.py"
_CONTROLLER = "controller/quorum_controller.py"
_APPLIER = "controller/quorum/metadata_applier.py"
_APPLIED = "controller/quorum/applied_offset.py"
_SNAPSHOT = "controller/metadata/snapshot_encoding.py"
_RUNTIME = "broker/coordinator/runtime.py"

MUTATIONS = (
    # -- controller -------------------------------------------------------------------------------------------------
    Mutation(
        "a response returns before this node has applied the change",
        _CONTROLLER,
        "                    await self.wait_applied(offset)\n",
        "",
        (f"{_COORDINATION}::test_a_node_that_answers_a_change_knows_it",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new controller decides before it has applied what its predecessors committed",
        _CONTROLLER,
        "            await self.wait_applied(end_offset)\n",
        "",
        (f"{_COORDINATION}::test_a_new_controller_knows_what_its_predecessor_committed_last",),
        seeds=5,
    ),
    Mutation(
        "a coordinator without a lease answers with stable offsets",
        "broker/coordinator/groups/group_coordinator.py",
        "        if require_stable and not self._has_lease():\n",
        "        if require_stable and self._has_lease() is None:\n",
        ("tests/broker/coordinator/test_published_bugs.py",),
    ),
    Mutation(
        "a lease begins with the response to the contact",
        "controller/quorum/broker_lease.py",
        "leader, sent_at + self._session_s",
        "leader, trio.current_time() + self._session_s",
        ("tests/controller/quorum/test_broker_lease.py",),
    ),
    Mutation(
        "any response to a contact prolongs the lease",
        "controller/quorum/broker_lease.py",
        "            if not response:\n",
        "            if response is not None:\n",
        ("tests/controller/quorum/test_broker_lease.py",),
    ),
    Mutation(
        "the contact of a fenced broker is confirmed",
        "controller/active/active_controller.py",
        "was_live = not broker.fenced and self.sessions.is_live(node_id, epoch, now_ms)",
        "was_live = True",
        ("tests/controller/quorum/test_broker_lease.py",),
    ),
    Mutation(
        "the active controller has a lease whatever it hears",
        _CONTROLLER,
        "        return self._raft.surely_leads\n",
        "        return self._raft.is_leader\n",
        ("tests/controller/quorum/test_broker_lease.py",),
    ),
    Mutation(
        "a Fetch that waited while the leader was paused prolongs its leadership",
        "controller/raft/raft_leader.py",
        "    if member.now < leader.resigns_at:  # A",
        "    if leader.resigns_at:  # A",
        ("tests/controller/raft/test_raft.py",),
    ),
    Mutation(
        "a node that does not answer is taken for dead",
        "controller/quorum/peers.py",
        "self._on_connection_lost(connection.peer, not connection.closed_here)",
        "self._on_connection_lost(connection.peer, True)",
        ("tests/controller/quorum/test_peers.py",),
    ),
    Mutation(
        "a segment that cannot be created leaves its files",
        "storage/segments/segment.py",
        "            remove_left(disk, [segment.prefix + suffix for suffix in SUFFIXES])\n",
        "",
        ("tests/storage/segments/test_segment.py",),
    ),
    Mutation(
        "a decision is answered before it is committed",
        "controller/active/leadership_term.py",
        "        while self._pending and self._pending[0].end_offset <= offset:\n",
        "        while self._pending:\n",
        (f"{_BUGS}::test_kafka_15489_a_controller_that_reaches_no_majority_gives_up",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new controller does not know the sessions of its predecessor, and never fences a broker that is gone",
        "controller/active/active_controller.py",
        "self.sessions.reset(_now_ms(), epochs, term.start_offset)",
        "self.sessions.reset(_now_ms(), {}, term.start_offset)",
        (f"{_COORDINATION}::test_a_new_controller_fences_a_broker_that_is_gone",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a controller that was stalled fences brokers whose heartbeats wait unread",
        "controller/active/active_controller.py",
        "            if trio.current_time() - until > LATE_MS / 1000:\n",
        "            if until > trio.current_time():\n",
        (f"{_BUGS}::test_kafka_15019_a_controller_that_was_stalled_fences_nobody",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a broker that registers again stays in the isr",
        "controller/decisions/broker_registration.py",
        "    removed = remove_from_isrs(image, request.broker_id, context, unclean_shutdown=unclean_shutdown)\n",
        "    removed = remove_from_isrs(image, -1, context, unclean_shutdown=unclean_shutdown)\n",
        (f"{_BUGS}::test_kip_966_the_last_replica_standing_loses_its_unsynced_records",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "two brokers get the same block of producer ids",
        "controller/decisions/producer_id_blocks.py",
        "ProducerIdsRecord(node_id, broker_epoch, first + BLOCK_SIZE)",
        "ProducerIdsRecord(node_id, broker_epoch, first)",
        (f"{_COORDINATION}::test_producers_of_different_brokers_have_different_ids",),
        seeds=1,
    ),
    Mutation(
        "a new partition begins with dead brokers in its isr",
        "controller/decisions/manual_assignments.py",
        "index, replicas, isr, isr[0], directories=directories)\n",
        "index, replicas, replicas, isr[0], directories=directories)\n",
        (f"{_NODES}::test_a_new_partition_does_not_wait_for_brokers_that_are_down",),
        seeds=9,
    ),
    Mutation(
        "the metadata log is acknowledged before it is flushed",
        "controller/quorum/raft_driver.py",
        "        await self._stored.sync()\n",
        "        await trio.lowlevel.checkpoint()\n",
        (f"{_NODES}::test_metadata_survives_a_power_failure_of_the_only_controller",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the vote is not flushed",
        "controller/quorum/raft_log.py",
        "        await self._disk.run(self._disk.write_atomically, f\"{self._log.directory}/{FILE_NAME}\", data)\n",
        "        self._disk.write_atomically(f\"{self._log.directory}/{FILE_NAME}\", data, sync=False)\n",
        (f"{_NODES}::test_metadata_survives_a_power_failure_of_the_only_controller",),
        seeds=2,
    ),
    # -- waiting for metadata ---------------------------------------------------------------------------------------
    Mutation(
        "a task that waits for an applied offset is woken by the next record only",
        _APPLIED,
        "        while self._waiting and self._waiting[0][0] <= offset:\n",
        "        while self._waiting and self._waiting[0][0] < offset:\n",
        (f"{_COORDINATION}::test_a_new_controller_fences_a_broker_that_is_gone",),
        seeds=1,
    ),
    Mutation(
        "a node that waits for its cluster id is not woken",
        _APPLIED,
        "        self._advanced.set()\n        self._advanced = trio.Event()\n",
        "        self._advanced = trio.Event()\n",
        (f"{_COORDINATION}::test_a_new_controller_fences_a_broker_that_is_gone",),
        seeds=1,
    ),
    # -- snapshots --------------------------------------------------------------------------------------------------
    Mutation(
        "a snapshot forgets the allocated producer ids",
        _SNAPSHOT,
        "    if image.next_producer_id:\n",
        "    if image.next_producer_id < 0:\n",
        (f"{_COORDINATION}::test_a_cluster_starts_again_from_snapshots",),
        seeds=8,
    ),
    Mutation(
        "a snapshot forgets the leader epochs",
        _SNAPSHOT,
        "                leader_epoch=state.leader_epoch,\n",
        "",
        (f"{_COORDINATION}::test_a_cluster_starts_again_from_snapshots",),
        seeds=1,
    ),
    Mutation(
        "a node waits for records that its snapshot has replaced",
        _APPLIER,
        "        self.progress = AppliedOffset(snapshot.offset)\n",
        "        self.progress = AppliedOffset(0)\n",
        (f"{_COORDINATION}::test_a_cluster_starts_again_from_snapshots",),
        seeds=4,
    ),
    Mutation(
        "topics that were deleted before a snapshot are not removed when it is installed",
        _APPLIER,
        "        await notify(self._subscribers, [*removed, *records])\n",
        "        await notify(self._subscribers, records)\n",
        (f"{_BUGS}::test_kafka_14238_a_node_gets_a_snapshot_in_place_of_records_that_are_gone",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the image keeps what an installed snapshot no longer has",
        _APPLIER,
        "            old.clear()\n            old.update(new)\n",
        "            old.update(new)\n",
        (f"{_BUGS}::test_kafka_14238_a_node_gets_a_snapshot_in_place_of_records_that_are_gone",),
        seeds=STORY_ONLY,
    ),
    # -- group coordinators -----------------------------------------------------------------------------------------
    Mutation(
        "a broker that lost a partition of the offsets goes on as its coordinator",
        "broker/coordinator/coordinator_parts.py",
        "            self.groups.resigned(index)\n",
        "            self.groups.resigned(index, 0)\n",
        (f"{_BUGS}::test_kafka_7447_a_coordinator_moves_away_and_back_while_it_loads",),
        seeds=1,
    ),
    Mutation(
        "a new coordinator loads only up to its high watermark",
        "broker/coordinator/internal_topic.py",
        "        found = self._partitions.find(*partition).log.read(offset, max_bytes=max_bytes)\n",
        "        known = self._partitions.find(*partition)\n"
        "        found = known.log.read(offset, max_bytes=max_bytes, limit_offset=known.high_watermark)\n",
        (f"{_COORDINATION}::test_the_last_commit_is_known_to_the_next_coordinator",),
        seeds=4,
    ),
    Mutation(
        "a commit of offsets is acknowledged before it is committed",
        _RUNTIME,
        "        await self._wait_committed(shard, pending.offset)\n        return pending.reply\n",
        "        return pending.reply\n",
        (f"{_COORDINATION}::test_a_commit_that_was_acknowledged_survives_the_coordinator",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "decisions that are made in turns of connections never pause",
        _RUNTIME,
        "        await self._pauses()\n        return await self.decide(",
        "        return await self.decide(",
        ("tests/broker/coordinator/test_at_once.py",),
    ),
    Mutation(
        "the sessions of members do not begin when a coordinator has loaded",
        "broker/coordinator/groups/group_shard.py",
        "    for member in group.members.values():\n"
        "        builder.schedule_session(group, member.member_id, member.session_timeout_ms)\n",
        "",
        (f"{_COORDINATION}::test_a_member_that_vanishes_with_its_coordinator_is_missed",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new deadline of a group does not wake the timer",
        "broker/coordinator/timer.py",
        "        if deadline_ms is not None and deadline_ms < self._wakeup_ms:\n            self._wakeup.set()\n",
        "        assert deadline_ms is None or deadline_ms >= 0, deadline_ms\n",
        (f"{_COORDINATION}::test_a_lone_member_gets_its_partitions",),
        seeds=STORY_ONLY,
    ),
)
