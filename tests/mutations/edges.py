"""Planted bugs at the edges of a node: disks that are slow, failed or full, descriptors, idle connections, what is done
off the loop.

What is done on the loop instead takes no virtual time, so that no seed can notice it.
"""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_LOOP = "tests/simulation/test_loop_stories.py"
_OFF_LOOP = "tests/storage/test_off_loop.py"
_MOVES = "tests/simulation/test_move_stories.py"
_DIRECTORY = "storage/data_directory.py"

MUTATIONS = (
    Mutation(
        "a clean shutdown flushes no log whose batches were all flushed, and with it not the end of its time index",
        "storage/log.py",
        "            self.touched.append(self.active)\n",
        "            pass\n",
        ("tests/storage/test_crash.py::test_a_log_that_was_flushed_and_closed_keeps_its_timestamps",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "checkpoints are written on the loop",
        "broker/partitions/log_housekeeping.py",
        "        await self._logs.write_checkpoints_async()\n",
        "        self._logs.write_checkpoints()\n",
        (f"{_LOOP}::test_no_file_is_synced_on_the_loop_of_a_node_that_serves",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a node that stops closes its logs on the loop",
        "broker/node/node.py",
        "            await self.parts.logs.close_async(",
        "            self.parts.logs.close(",
        (f"{_LOOP}::test_no_file_is_synced_on_the_loop_of_a_node_that_serves",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a metadata snapshot is written by the step that installs it",
        "controller/quorum/raft_driver.py",
        "            await self._stored.prepare(*complete)\n",
        "            assert complete\n",
        (f"{_LOOP}::test_a_metadata_snapshot_is_not_synced_on_the_loop_that_installs_it",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a thread is called for each checkpoint, also if nothing has changed",
        "storage/log_upkeep.py",
        "                if write is not nothing_to_write:\n",
        "                if write is not None:\n",
        (f"{_OFF_LOOP}::test_no_thread_is_called_for_checkpoints_that_have_not_changed",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a checkpoint that could not be written is taken for written",
        _DIRECTORY,
        "        if self._prepared.get(name) == offsets == self._written.get(name):\n",
        "        if self._prepared.get(name) == offsets:\n",
        (f"{_OFF_LOOP}::test_a_checkpoint_that_could_not_be_written_is_written_the_next_time",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a checkpoint that was prepared earlier replaces a newer one",
        _DIRECTORY,
        "            if number < self._newest.get(name, 0):\n",
        "            if number < 0:\n",
        (f"{_OFF_LOOP}::test_a_checkpoint_that_a_thread_writes_late_does_not_replace_a_newer_one",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a log that is made anew is not forgotten by a checkpoint that a thread is about to write",
        _DIRECTORY,
        " or key in self._prepared.get(name, ()):",
        ":",
        (f"{_OFF_LOOP}::test_a_log_that_is_made_anew_is_forgotten_also_by_a_checkpoint_that_waits_for_its_thread",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the parts of a large request that arrive are no activity",
        "broker/connections/connection.py",
        "        if self.transport.progress != self._progress_seen:\n",
        "        if self.transport.progress < self._progress_seen:\n",
        ("tests/broker/connections/test_idle_connections.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a large message to or from a fast peer is moved in one step",
        "broker/connections/transport.py",
        "        self._in_step_bytes += count\n",
        "        self._in_step_bytes += 0\n",
        ("tests/broker/connections/test_transport.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a controlled shutdown gives up before another controller can be elected",
        "broker/node/registration.py",
        "        elections_ms = 2 * config",
        "        elections_ms = 0 * config",
        ("tests/broker/node/test_registration.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a replica that cannot be read for its copy stays in service",
        "broker/replication/replica_moves.py",
        "            if source.truncations == truncations:  # Otherwise",
        "            if source.truncations != truncations:  # Otherwise",
        (f"{_MOVES}::test_a_replica_that_cannot_be_read_for_its_copy_is_lost_with_its_directory",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a lack of descriptors takes the directory of a replica that moves offline",
        "storage/guarded_log.py",
        "            if not is_passing(error):\n                self.failure",
        "            if error:\n                self.failure",
        (f"{_MOVES}::test_a_move_goes_on_after_a_lack_of_descriptors",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "an offline directory is described as one without partitions",
        "broker/apis/describe_log_dirs.py",
        "        if directory.failed:\n",
        "        if directory.failed and not directory.path:\n",
        ("tests/conversations/test_directories.py::test_an_offline_directory_is_described_as_in_kafka",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "nothing is kept back for what must be opened when descriptors run out",
        "storage/disk.py",
        "        if self._reserve:\n            os.close",
        "        if self._reserve is None:\n            os.close",
        ("tests/storage/test_disk.py::test_what_must_be_opened_without_descriptors_takes_one_of_the_reserve",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a full disk is never tried again",
        "storage/log_manager.py",
        "            if directory.room.is_full and self._on(",
        "            if not directory.room and self._on(",
        ("tests/storage/test_passing_errors.py", "tests/storage/test_log_manager.py"),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "requests that are read hold no room in the memory of all",
        "broker/connections/connection.py",
        "            await self._memory.reserve(size_bytes)\n",
        "            await trio.lowlevel.checkpoint()\n",
        ("tests/broker/connections/test_request_memory.py", "tests/broker/connections/test_large_requests_together.py"),
        seeds=1,
    ),
    Mutation(
        "after a clean shutdown, the names of a log without records count as flushed",
        "storage/recovery.py",
        " or not self.report.clean or self.end_offset == self.start_offset\n",
        " or not self.report.clean\n",
        ("tests/storage/test_log.py", "tests/simulation/test_failed_schedules.py"),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "leader epochs of deleted records that a crash brought back are not rebuilt",
        "storage/recovery.py",
        "(not entries or entries[0][1] > start)",
        "not entries",
        ("tests/storage/test_crash.py", "tests/simulation/test_failed_schedules.py"),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "recovery rewrites flushed entries of the transaction index, and the recovery point says that they are flushed",
        "storage/recovery.py",
        "        segment.transactions.truncate_to(max(self.end_offset, self.recovery_point))\n",
        "        segment.transactions.truncate_to(self.end_offset)\n",
        ("tests/storage/test_crash.py", "tests/simulation/test_failed_schedules.py"),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a segment that was truncated and rolled is still to be flushed when its files are removed",
        "storage/log.py",
        "        self.touched = [one for one in self.touched if not one.is_deleted]  # some are there twice\n",
        "        self.touched = [one for one in self.touched if one not in segments or self.touched.count(one) > 1]\n",
        ("tests/storage/test_log.py",),
        seeds=TEST_ONLY,
    ),
)
