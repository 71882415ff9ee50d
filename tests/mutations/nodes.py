"""Planted bugs where the parts of a broker meet: start, registration, in-sync replicas, logs after a restart."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_BUGS = "tests/simulation/test_published_bugs.py"
_NODES = "tests/simulation/test_node_stories.py"
_NODE = "broker/node/node.py"
_REGISTRATION = "broker/node/registration.py"
_LIFECYCLE = "broker/partitions/partition_lifecycle.py"
_PARTITION = "broker/partitions/partition.py"
_PROGRESS = "broker/partitions/follower_progress.py"
_FETCHER = "broker/replication/replica_fetcher.py"
_ISR_CHANGES = "broker/replication/isr_changes.py"
_LOG_MANAGER = "storage/directories/log_manager.py"
_LOG = "storage/logs/log.py"
_SOCKETS = "controller/quorum/listening_sockets.py"
_LISTENING = "tests/controller/quorum/test_listening_sockets.py"
_START_ERRORS = "tests/broker/node/test_start_errors.py"
_CRASH = "tests/storage/test_crash.py"
_PUBLISHED = "tests/storage/test_published_bugs.py"

MUTATIONS = (
    Mutation(
        "a restarted node forgets the limits of connections that were set while it ran",
        _NODE,
        "runtime_settings.update()\n        await in_steps(",
        "runtime_settings\n        await in_steps(",
        ("tests/broker/node/test_settings_after_restart.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "nobody is told why a topic was not created on demand",
        "broker/apis/metadata.py",
        "        if refused := services.refused_topics.news(results):\n",
        "        if refused := {}:\n",
        ("tests/broker/apis/test_metadata.py",),
    ),
    Mutation(
        "each request for a topic that is refused is logged",
        "broker/coordinator/refused_topics.py",
        "            elif self._reasons.get(result.name) != reason:\n",
        "            else:\n",
        ("tests/broker/coordinator/test_refused_topics.py",),
    ),
    Mutation(
        "topics that were refused are remembered without bound",
        "broker/coordinator/refused_topics.py",
        "            self._reasons.clear()\n",
        "            pass\n",
        ("tests/broker/coordinator/test_refused_topics.py",),
    ),
    Mutation(
        "an empty metadata snapshot is said to be of a newer version",
        "controller/metadata/snapshot_encoding.py",
        "    if not data:\n",
        "    if False:\n",
        ("tests/controller/metadata/test_records.py",),
    ),
    Mutation(
        "an empty bootstrap.checkpoint is the same as none",
        "controller/quorum/bootstrap_checkpoint.py",
        "    if not data:\n",
        "    if False:\n",
        ("tests/controller/quorum/test_bootstrap_checkpoint.py",),
    ),
    Mutation(
        "a conflict with --port blames the file alone",
        "broker/settings/node_config.py",
        '        if replaced and "listeners" in (settings or {}) and',
        '        if not replaced and "listeners" in (settings or {}) and',
        ("tests/broker/settings/test_node_config.py",),
        seeds=TEST_ONLY,
    ),
    # -- a full disk at the start ---------------------------------------------------------------------------------
    Mutation(
        "a node whose log met a full disk ends without naming the directory",
        "broker/node/main.py",
        "cause = full_disk_behind(error) or cause",
        "pass",
        ("tests/broker/node/test_full_disk.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a file of settings is written half on a full disk",
        "cli/clusters/node_files.py",
        "        new.write_text(text)\n        new.replace(path)\n",
        "        path.write_text(text)\n",
        ("tests/cli/test_cluster_settings.py::test_a_disk_that_is_full_at_the_nth_file_leaves_the_settings_as_they_were",),
    ),
    # -- addresses and ports --------------------------------------------------------------------------------------
    Mutation(
        "silent connections to the controller listener are not bounded apart",
        "controller/quorum/strangers.py",
        "while len(self._present) >= self._places():",
        "while False:",
        ("tests/controller/quorum/test_peers.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "connections that wait since a stall are closed before what they have sent is read",
        "controller/quorum/strangers.py",
        "            if kind is not Kind.NEW and kind <= waited_for:\n",
        "            if kind <= waited_for:\n",
        ("tests/controller/quorum/test_strangers.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a connection that makes room is closed before what has arrived is read",
        "controller/quorum/strangers.py",
        "await trio.sleep(0 if waited_for is Kind.SILENT else PAUSE_S)\n            await trio.lowlevel.checkpoint()",
        "await trio.sleep(0)",
        ("tests/controller/quorum/test_strangers.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the time of a login counts from the beginning of the connection",
        "controller/quorum/strangers.py",
        "self._since, self._is_silent = trio.current_time(), False",
        "self._is_silent = False",
        ("tests/controller/quorum/test_strangers.py", "tests/controller/quorum/test_node_logins.py"),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a crowd at one address takes the places of others",
        "controller/quorum/strangers.py",
        "if not is_crowd or stranger.host == host",
        "if stranger",
        ("tests/controller/quorum/test_strangers.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a node may send requests of a login while one is answered",
        "controller/quorum/node_logins.py",
        "            self._may_log_in = False\n",
        "",
        ("tests/controller/quorum/test_node_logins.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a node that has logged in makes room for strangers",
        "controller/quorum/peers.py",
        "                self._strangers.leave(stranger)\n",
        "                pass\n",
        ("tests/controller/quorum/test_node_logins.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a node that checks its addresses accepts clients",
        _SOCKETS,
        "listen=False",
        "listen=True",
        (f"{_LISTENING}::test_while_an_address_is_checked_nobody_can_connect",),
    ),
    Mutation(
        "the cleaner does not sleep",
        "broker/partitions/log_cleaner.py",
        "max(BACKOFF_MS_MIN, self._settings().backoff_ms)",
        "self._settings().backoff_ms",
        ("tests/broker/node/test_odd_settings.py",),
    ),
    Mutation(
        "an interval of 0 repeats for ever",
        "broker/partitions/log_housekeeping.py",
        "        if interval_ms <= 0:\n            return\n",
        "",
        ("tests/broker/node/test_odd_settings.py",),
    ),
    Mutation(
        "the codec of the offsets topic is not checked",
        "broker/settings/rules.py",
        "    _codecs_are_known,\n",
        "",
        ("tests/broker/settings/test_node_config.py",),
    ),
    Mutation(
        "a listener without a host serves IPv4 only",
        _SOCKETS,
        'WILDCARDS = ("0.0.0.0", "::")',
        'WILDCARDS = ("0.0.0.0",)',
        (f"{_LISTENING}::test_a_listener_serves_every_address_that_its_host_stands_for",),
    ),
    Mutation(
        "a machine without IPv6 has no listeners without a host",
        _SOCKETS,
        "_NOT_HERE = (errno.EADDRNOTAVAIL, errno.EAFNOSUPPORT)",
        "_NOT_HERE = (errno.EADDRNOTAVAIL,)",
        (f"{_LISTENING}::test_a_machine_without_ipv6_serves_ipv4",),
    ),
    Mutation(
        "a node whose port is in use makes its data directory first",
        "broker/node/main.py",
        "    check_addresses(config)\n",
        "",
        (f"{_START_ERRORS}::test_a_node_that_cannot_start_makes_no_directory",),
    ),
    # -- start and registration ----------------------------------------------------------------------------------
    Mutation(
        "a node follows the metadata before it is registered, and deletes logs that it does not know yet",
        _NODE,
        "        await registration.register()\n        self._registration = registration\n"
        "        nursery.start_soon(registration.send_heartbeats)\n        await self._follow_metadata()\n",
        "        await self._follow_metadata()\n        await registration.register()\n"
        "        self._registration = registration\n        nursery.start_soon(registration.send_heartbeats)\n",
        (f"{_NODES}::test_metadata_survives_a_power_failure_of_the_only_controller",),
        seeds=1,
    ),
    Mutation(
        "the group coordinator starts after the partitions have their roles",
        _NODE,
        "                await nursery.start(parts.coordinators.groups.run)\n"
        "                await nursery.start(parts.coordinators.transactions.run)\n"
        "                await nursery.start(parts.replicas.fetchers.run)\n"
        "                nursery.start_soon(parts.replicas.isr_changes.run)\n"
        "                await self._serve_clients(nursery, task_status)\n",
        "                await nursery.start(parts.coordinators.transactions.run)\n"
        "                await nursery.start(parts.replicas.fetchers.run)\n"
        "                nursery.start_soon(parts.replicas.isr_changes.run)\n"
        "                await self._serve_clients(nursery, task_status)\n"
        "                await nursery.start(parts.coordinators.groups.run)\n",
        (f"{_NODES}::test_a_lone_node_that_coordinates_groups_starts_again",),
        seeds=6,
    ),
    Mutation(
        "a node gives up its start while the session of its earlier process lasts",
        _REGISTRATION,
        "_RETRIABLE = (ErrorCode.DUPLICATE_BROKER_REGISTRATION, ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)",
        "_RETRIABLE = (ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_CONTROLLER)",
        (f"{_NODES}::test_a_batch_that_is_sent_again_after_a_restart_is_known",),
        seeds=1,
    ),
    Mutation(
        "a broker that was unfenced once never asks to be unfenced again",
        _REGISTRATION,
        "            if self._is_unfenced():\n",
        "            if self.unfenced.is_set() or self._is_unfenced():\n",
        (f"{_NODES}::test_a_batch_that_is_sent_again_waits_until_it_is_committed",),
        seeds=1,
    ),
    Mutation(
        "a broker claims a clean shutdown after a crash",
        _REGISTRATION,
        "            previous_broker_epoch=self._previous_broker_epoch,\n",
        "            previous_broker_epoch=self._controller.image.brokers[self._node_id].epoch\n"
        "            if self._node_id in self._controller.image.brokers\n            else -1,\n",
        (f"{_BUGS}::test_kip_966_the_last_replica_standing_loses_its_unsynced_records",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the clean-shutdown file survives the start",
        "storage/directories/data_directory.py",
        "                self._disk.remove(path)\n                self._disk.sync_directory(self._path)\n",
        "",
        (f"{_BUGS}::test_kafka_10471_a_crash_after_a_clean_shutdown_is_not_clean",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a crash is not followed by log recovery",
        "storage/directories/directory_checkpoints.py",
        "        return Checkpointed(was_clean, recovery_point, start_offset, cleaner_offset)\n",
        "        return Checkpointed(True, recovery_point, start_offset, cleaner_offset)\n",
        (f"{_NODES}::test_a_batch_with_a_hole_is_found_when_a_node_starts_after_a_crash",),
        seeds=4,
    ),
    Mutation(
        "a topic that is made anew continues with the log of its predecessor",
        "storage/directories/log_manager.py",
        "        if log is None or (topic_id is not None and log.topic_id != topic_id):\n",
        "        if log is None:\n",
        (f"{_BUGS}::test_kafka_14616_a_topic_is_made_anew_while_a_broker_is_down",),
        seeds=2,
    ),
    # -- in-sync replicas and high watermark ------------------------------------------------------------------------
    Mutation(
        "a smaller isr does not advance the high watermark",
        _PARTITION,
        "        self._advance()\n        self._commits.wake()\n",
        "        self._commits.wake()\n",
        (f"{_BUGS}::test_kafka_13091_a_smaller_isr_completes_the_produce_that_waits_for_it",),
        seeds=9,
    ),
    Mutation(
        "a new leader without followers does not advance the high watermark",
        _PARTITION,
        "epoch_start_offset=end, environment=self._environment\n            )\n            self._advance()\n",
        "epoch_start_offset=end, environment=self._environment\n            )\n",
        (f"{_NODES}::test_a_lone_replica_serves_all_that_it_has_after_a_crash",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the latest offset goes back after an election",
        _PARTITION,
        "if self.leader_state is not None and self.leader_state.epoch_start_offset > self.high_watermark:",
        "if self.leader_state is None:",
        (f"{_BUGS}::test_kafka_2334_the_latest_offset_does_not_go_back_after_an_election",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a repeated batch is acknowledged before it is committed",
        _PARTITION,
        "return AppendResult(known.first_offset, known.last_offset, known.timestamp, term, log.flush_due)",
        "return AppendResult(known.first_offset, -1, known.timestamp, term, log.flush_due)",
        (f"{_NODES}::test_a_batch_that_is_sent_again_waits_until_it_is_committed",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "followers that lag are never looked for",
        _ISR_CHANGES,
        "                self._candidates = dict.fromkeys(self._partitions, True)\n",
        "",
        (f"{_NODES}::test_a_follower_leaves_the_isr_and_returns_more_than_once",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a proposed isr is sent once, whatever the answer",
        _ISR_CHANGES,
        "        self._pending = pending\n        if not pending:\n",
        "        self._pending = {}\n        if not pending:\n",
        (f"{_NODES}::test_a_proposed_isr_is_sent_again_when_the_controller_is_back",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a committed isr does not end the proposal",
        _PROGRESS,
        "        self.isr = state.isr\n        self.pending = None\n",
        "        self.isr = state.isr\n",
        (f"{_NODES}::test_a_follower_leaves_the_isr_and_returns_more_than_once",),
        seeds=1,
    ),
    # -- following --------------------------------------------------------------------------------------------------
    Mutation(
        "a follower misses a new epoch of the same leader",
        _PARTITION,
        "        if state.leader_epoch == self.leader_epoch and state.leader == self.leader_id:\n",
        "        same_epoch = state.leader_epoch == self.leader_epoch\n"
        "        if state.leader == self.leader_id and (same_epoch or not self.is_leader):\n",
        (f"{_NODES}::test_a_follower_notices_a_new_epoch_of_the_same_leader",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a fetcher that was stopped is used again",
        _FETCHER,
        "            fetcher.scope.cancel()\n            del self._fetchers[fetcher.leader_id]\n",
        "            fetcher.scope.cancel()\n",
        (f"{_NODES}::test_a_batch_that_was_truncated_is_not_known_any_more",),
        seeds=1,
    ),
    Mutation(
        "a follower whose log ends before that of the leader starts never catches up",
        _FETCHER,
        "            if earliest > partition.log.end_offset:\n",
        "            if earliest > latest:\n",
        (f"{_NODES}::test_a_follower_returns_whose_log_ends_before_that_of_the_leader_starts",),
        seeds=2,
    ),
    Mutation(
        "a follower does not delete what its leader has deleted",
        _PARTITION,
        "        if new_start > self.log.start_offset:\n            self.log.advance_start_offset(new_start)\n"
        "            self.visible.grew(0)\n",
        "",
        (f"{_NODES}::test_deleted_records_stay_deleted_after_an_election",),
        seeds=STORY_ONLY,
    ),
    # -- logs -------------------------------------------------------------------------------------------------------
    Mutation(
        "the high watermark of the checkpoint may lie beyond the log",
        _LOG_MANAGER,
        "                return min(max(found, log.start_offset), log.end_offset)\n",
        "                return max(found, log.start_offset)\n",
        (f"{_NODES}::test_a_log_that_lost_its_end_begins_to_commit_there",),
        seeds=6,
    ),
    Mutation(
        "the log start offset is lost in a restart",
        "storage/directories/directory_checkpoints.py",
        "        return Checkpointed(was_clean, recovery_point, start_offset, cleaner_offset)\n",
        "        return Checkpointed(was_clean, recovery_point, 0, cleaner_offset)\n",
        (f"{_NODES}::test_deleted_records_stay_deleted_after_a_restart",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "an epoch that starts at the end of the log survives a truncation",
        "storage/logs/leader_epochs.py",
        "        if end_offset >= 0 and self._starts and self._starts[-1] >= end_offset:\n",
        "        if end_offset >= 0 and self._starts and self._starts[-1] > end_offset:\n",
        (f"{_NODES}::test_a_leader_without_records_of_its_own_follows_the_next_one",),
        seeds=1,
    ),
    Mutation(
        "producers keep their sequences after a truncation",
        "storage/logs/truncation.py",
        "        log.epochs.truncate_from_end(offset)\n        _rebuild_producers(log)\n",
        "        log.epochs.truncate_from_end(offset)\n",
        (f"{_NODES}::test_a_batch_that_was_truncated_is_not_known_any_more",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "followers do not track the sequences of producers",
        _LOG,
        "                if batch.producer_id >= 0:\n"
        "                    update_producer(state.producers, active, batch)\n",
        "                if batch.producer_id >= 0 and assign_offsets:\n"
        "                    update_producer(state.producers, active, batch)\n",
        (f"{_NODES}::test_a_batch_that_is_sent_again_to_the_next_leader_is_known",),
        seeds=4,
    ),
    Mutation(
        "the sequences of producers are lost in a clean restart",
        "storage/logs/recovery.py",
        "        if self.report.clean:\n            replay(log, log.end_offset)\n",
        "",
        (f"{_NODES}::test_a_batch_that_is_sent_again_after_a_restart_is_known",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a truncation that recovery completes is not flushed",
        "storage/logs/recovery.py",
        "            log.unflushed.touched[log.segments[index - 1]] = None\n",
        "",
        (f"{_CRASH}::test_a_truncation_to_the_recovery_point_is_completed_after_power_failures",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a torn batch adds an epoch to a rebuilt epoch checkpoint",
        "storage/logs/recovery.py",
        "                if header.base_offset < expected:  # A torn write, beyond the recovery point.\n"
        "                    break\n",
        "",
        (f"{_PUBLISHED}::test_a_torn_batch_adds_no_epoch_to_a_rebuilt_epoch_checkpoint",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the sequences of producers are lost in a crash",
        "storage/logs/recovery.py",
        "        if batch.producer_id >= 0:\n            update_producer(log.producers, segment, batch)\n",
        "",
        (f"{_NODES}::test_a_batch_that_is_sent_again_after_a_restart_is_known",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "flush.messages is ignored",
        "broker/apis/produce.py",
        "        if written.flush_due:\n            await _settle(partition.flushed(), answer)\n",
        "        assert partition is not None, answer\n",
        (f"{_NODES}::test_records_of_a_topic_that_flushes_each_survive_a_power_failure",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a failed append is not undone",
        "storage/logs/log.py",
        "                self.segments.active.undo_append(self.end_offset)\n",
        "                assert self.end_offset >= 0\n",
        ("tests/storage/test_passing_errors.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a record can be read before it is flushed",
        "broker/partitions/partition.py",
        "        elif not appended.flush_due:\n",
        "        else:\n",
        (f"{_NODES}::test_a_record_that_is_not_flushed_yet_cannot_be_read",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a node that waits for its quorum is silent",
        "controller/quorum/quorum_wait.py",
        "        if leader() >= 0:\n",
        "        if leader() >= -1:\n",
        ("tests/controller/quorum/test_quorum_wait.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker alone that is fenced waits for a minute before it asks to be unfenced",
        "broker/node/registration.py",
        "        while was_fenced or self._is_unfenced():\n",
        "        while True:\n",
        ("tests/broker/node/test_registration.py",),
        seeds=TEST_ONLY,
    ),
)
