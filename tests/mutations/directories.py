"""Planted bugs in data directories that fail, are missing, or come back (KIP-112, KIP-858)."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_STORIES = "tests/simulation/test_directory_stories.py"
_LOG_MANAGER = "storage/log_manager.py"
_AT_START = f"{_STORIES}::test_a_directory_that_fails_at_start_means_an_unclean_start_and_no_log_is_made_anew"

_MOVES = "tests/storage/test_future_logs.py"
_MOVE = "tests/simulation/test_move_stories.py"
_MOVER = "broker/replication/replica_moves.py"

_ANEW = "tests/broker/partitions/test_topic_made_anew.py::test_a_topic_that_is_made_anew_has_its_own_records_only"

MUTATIONS = (
    Mutation(
        "a move that is refused leaves a copy that is none",
        "storage/future_logs.py",
        "            if is_passing(error) and self._disk.exists(path):\n",
        "            if not path:\n",
        ("tests/storage/test_refused_moves.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a copy in the directory of the log is continued",
        "storage/future_logs.py",
        "        return topic_id_in(self._disk, path) in (None, topic_id_in(self._disk, current))\n",
        "        return False\n",
        ("tests/storage/test_refused_moves.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a new copy takes its directory offline because another one cannot be synced",
        "storage/future_logs.py",
        "            self._failed(earlier, error)\n",
        "            self._failed(self._directories[-1], error)\n",
        ("tests/storage/test_refused_moves.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a replica is moved into the directory that it is in",
        _MOVER,
        "future.topic_id != partition.topic_id or key in directory.logs:\n",
        "future.topic_id != partition.topic_id:\n",
        ("tests/broker/replication/test_resumed_moves.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a copy takes the name of a log that is there",
        "storage/future_logs.py",
        "                if key not in directory.logs and self._disk.exists(path):\n                    stray",
        "                if not path:\n                    stray",
        ("tests/storage/test_refused_moves.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a log that is found corrupt while the node serves counts as one that is not",
        _LOG_MANAGER,
        "            self._found_corrupt(directory, key, error)\n            raise\n",
        "            raise\n",
        ("tests/broker/partitions/test_topic_made_anew.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the corrupt log of a topic that was deleted while the node was down stays among the logs",
        "broker/partitions/stray_logs.py",
        "for key in (*logs.corrupt, *logs.futures.partitions)",
        "for key in logs.futures.partitions",
        ("tests/broker/partitions/test_topic_made_anew.py::test_no_log_of_a_deleted_topic_stays_among_the_logs",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a log that could not be opened is opened for another topic of the same name",
        _LOG_MANAGER,
        "            if directory is not current:\n                self._set_aside(directory, key)\n",
        "            if directory is not current and key in directory.logs:\n"
        "                self._set_aside(directory, key)\n",
        (_ANEW,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the log of a deleted topic stays if it could not be opened",
        "broker/partitions/partition_lifecycle.py",
        "                self._remove_unserved(topic, index)\n        self._deleted(",
        "                assert index >= 0\n        self._deleted(",
        (_ANEW,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a log that has lost its topic id is deleted with no topic",
        "storage/directory_scan.py",
        "    return int(was_flushed)\n",
        "    return 0\n",
        (_ANEW,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "what is left of a log that was not made on a full disk stays",
        _LOG_MANAGER,
        "                self._undo(directory, key)\n",
        "                assert directory.path\n",
        ("tests/storage/test_passing_errors.py::test_a_full_directory_gets_no_new_logs_until_it_has_room",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "two logs without topic ids that were never flushed keep a node from starting",
        "storage/directory_scan.py",
        " if key not in contents[path].unflushed}",
        "}",
        (f"{_STORIES}::test_two_logs_without_topic_ids_that_were_never_flushed_are_set_aside_and_the_node_starts",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a gap that a power failure has left in a compacted log is taken for the cleaner's",
        "storage/recovery.py",
        "is_cleaned = self.cleaner_offset is None or base_offset <= self.cleaner_offset",
        "is_cleaned = True",
        ("tests/storage/test_gaps.py",),
    ),
    Mutation(
        "a replica that begins to move does not wake the task that copies it",
        _MOVER,
        "        self._moves[key] = Move(partition, partition.log, future)\n        self._wakeup.set()\n",
        "        self._moves[key] = Move(partition, partition.log, future)\n",
        (f"{_MOVE}::test_a_leader_and_a_follower_move_while_records_are_written",),
        seeds=16,
    ),
    Mutation(
        "a move that a restart has interrupted is not continued",
        "broker/partitions/partition_lifecycle.py",
        "            self._moves.resume(partition)\n",
        "            assert partition is not None\n",
        (f"{_MOVE}::test_a_power_failure_during_a_move_loses_nothing_that_was_flushed",),
        seeds=16,
    ),
    Mutation(
        "the controller does not learn where a replica is about to be",
        _MOVER,
        "            self._placed(move.partition.topic_id, key.partition, directory.id)\n        return False\n",
        "            assert directory.id\n        return False\n",
        (f"{_MOVE}::test_a_leader_and_a_follower_move_while_records_are_written",),
        seeds=16,
    ),
    Mutation(
        "a copy is taken for the log while the directory of the log is offline",
        _LOG_MANAGER,
        "            if len(self.healthy) < len(self.directories):\n"
        '                raise KafkaStorageError(f"the future',
        '            if not self.healthy:\n                raise KafkaStorageError(f"the future',
        (f"{_MOVES}::test_a_copy_is_not_the_log_while_the_directory_of_the_log_is_offline",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a flush after a swap does not make the swap durable",
        "storage/flush.py",
        "        if self._settle is not None:\n",
        "        if self._settle is not None and not self._files:\n",
        (f"{_MOVES}::test_wherever_a_move_ends_the_log_is_whole",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a log that moves forgets producers whose records are deleted",
        "storage/future_logs.py",
        "            future.take_over(source)\n",
        "            future.update_config(source.config)\n",
        (f"{_MOVES}::test_what_records_do_not_tell_moves_along",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "new replicas are placed on a broker whose directories are all cordoned",
        "controller/decisions/replica_placement.py",
        "        if broker.takes_replicas and (",
        "        if (",
        ("tests/controller/decisions/test_broker_heartbeat.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a failed directory is not reported to the controller",
        "broker/node/broker_parts.py",
        "            self._follower.directory_failed()\n        self.directory_reports.directories_changed()\n",
        "            self._follower.directory_failed()\n        assert path\n",
        (f"{_STORIES}::test_a_leader_whose_directory_fails_is_replaced_within_seconds_and_serves_from_the_other",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a log is made anew while the directory that may have it is offline",
        _LOG_MANAGER,
        "and not (is_new and assigned == UNASSIGNED):\n",
        "and not key:\n",
        (_AT_START,),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a directory that fails at start does not count as an unclean shutdown",
        _LOG_MANAGER,
        "all(directory.failure is None and directory.clean for directory in self.directories)\n"
        "        epochs = {directory.broker_epoch for directory in self.directories}\n",
        "all(directory.clean for directory in self.healthy)\n"
        "        epochs = {directory.broker_epoch for directory in self.healthy}\n",
        (_AT_START,),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a voter without its metadata log starts",
        "controller/quorum_controller.py",
        "        if settings.is_controller:\n            directory, fixed",
        "        if not settings.is_controller:\n            directory, fixed",
        (f"{_STORIES}::test_a_node_without_its_metadata_directory_refuses_to_start",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new metadata disk of a voter is refused beside its data",
        "controller/metadata/cluster_ids.py",
        "concerned = data_directories if has_fixed_voters else [directory]",
        "concerned = data_directories",
        ("tests/simulation/test_voter_stories.py::test_only_the_disk_of_a_voters_metadata_is_replaced",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a metadata directory of its own has no id",
        "broker/node/node.py",
        "        self._claim_metadata_directory()\n",
        "",
        ("tests/simulation/test_voter_stories.py::test_fixed_voters_with_a_directory_for_their_metadata_are_upgraded",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a replica in a failed directory may lead",
        "controller/decisions/leader_election.py",
        "        return self.may_lead(node) and self.has_online(node, state.directory(node))\n",
        "        return self.may_lead(node)\n",
        ("tests/controller/decisions/test_directories.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a leader proposes a follower whose directory has failed, again and again",
        "broker/partitions/follower_progress.py",
        " == broker.epoch and self._has_directory(broker)\n",
        " == broker.epoch\n",
        (f"{_STORIES}::test_a_follower_whose_directory_fails_leaves_the_isr_at_once_and_stays_out",),
        seeds=STORY_ONLY,
    ),
)
