"""Planted bugs of transactions: epochs, markers, verification."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_COORDINATOR = "tests/broker/coordinator/transactions/test_transaction_coordinator.py"
_VERIFICATION = "tests/broker/partitions/test_verification.py"
_STORIES = "tests/simulation/test_transaction_stories.py"
_STEPS = "tests/simulation/test_transaction_completion_stories.py"
_ORDER = "tests/simulation/test_transaction_order_stories.py"
_PACKAGE = "broker/coordinator/transactions"

MUTATIONS = (
    Mutation(
        "markers are written before the outcome is committed",
        f"{_PACKAGE}/completion.py",
        "        elif not self._runtime.is_committed(partition, one.offset):\n",
        "        elif one.offset < 0:\n",
        (f"{_ORDER}::test_nothing_is_marked_before_the_outcome_is_committed",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new coordinator forgets the transactions whose outcome is decided",
        f"{_PACKAGE}/transaction_shard.py",
        "        for transactional_id in list(self.prepared_offsets):\n",
        "        for transactional_id in list(self.prepared_offsets)[:0]:\n",
        (f"{_STORIES}::test_a_coordinator_dies_after_the_outcome_is_decided",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a repeated EndTxn ends the next transaction",
        f"{_PACKAGE}/end_transaction.py",
        "    return epoch == current.producer_epoch or (repeated and current.state not in (EMPTY, ONGOING))\n",
        "    return epoch == current.producer_epoch or repeated\n",
        (f"{_ORDER}::test_a_late_end_does_not_end_the_next_transaction",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "an aborted transaction keeps the epoch of its producer, who is not fenced",
        f"{_PACKAGE}/transaction.py",
        "            return self.prepared(now_ms, server_version, commit=False)\n",
        "            return self.prepared(now_ms, 0, commit=False)\n",
        (f"{_ORDER}::test_a_transaction_that_takes_too_long_is_aborted_as_a_whole",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a marker for a leader that is gone is not sent again",
        f"{_PACKAGE}/marker_channel.py",
        "        if not error:\n",
        "        if error not in SUPERSEDED:\n",
        (f"{_STORIES}::test_a_leader_dies_before_it_has_the_marker",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "epochs grow beyond the last one",
        f"{_PACKAGE}/end_transaction.py",
        "    if bumps and is_exhausted(current.producer_epoch):\n",
        "    if bumps and current.producer_epoch > EPOCH_MAX:\n",
        (f"{_COORDINATOR}::test_a_producer_without_epochs_gets_a_new_id_with_its_last_transaction",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a marker leaves the token of a verification valid",
        "broker/partitions/verification.py",
        "        if known is not None and not (known.bumps_epoch and known.producer_epoch >= marker_epoch):\n",
        "        if known is not None and known.producer_epoch < marker_epoch:\n",
        (f"{_VERIFICATION}::test_a_marker_makes_a_token_void",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a marker makes the token of the next transaction void",
        "broker/partitions/verification.py",
        "        if known is not None and not (known.bumps_epoch and known.producer_epoch >= marker_epoch):\n",
        "        if known is not None:\n",
        (f"{_VERIFICATION}::test_the_marker_of_the_transaction_before_leaves_the_token_of_the_next_one",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a token outlives the leader epoch",
        "broker/partitions/partition.py",
        "        self._verifications.clear()\n",
        "",
        (f"{_VERIFICATION}::test_a_new_leader_epoch_makes_a_token_void",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a transaction is opened without asking its coordinator",
        "broker/partitions/verification.py",
        "        if known is None or token is not known:\n",
        "        if known is not None and token is not known:\n",
        (f"{_VERIFICATION}::test_a_transaction_is_opened_with_a_token_only",),
    ),
    Mutation(
        "markers are written before EndTxn is answered",
        "broker/coordinator/runtime.py",
        "        if self._pauses.is_due():\n            return self._after_pause(partition, decide)\n"
        "        return self.decide(partition, decide)\n\n    async def _after_pause(",
        "        decided = self.decide(partition, decide)\n\n        async def later() -> Any:\n"
        "            await trio.lowlevel.checkpoint()\n            await trio.lowlevel.checkpoint()\n"
        "            return await completed(decided)\n\n"
        "        return later()\n\n    async def _after_pause(",
        (f"{_COORDINATOR}::test_the_answer_to_an_end_comes_before_the_work_on_its_markers",),
    ),
    Mutation(
        "a partition is verified before its addition is committed",
        "broker/coordinator/runtime.py",
        " or not self._is_committed(shard, shard.last_offset):\n            return None\n        return shard.state\n",
        ":\n            return None\n        return shard.state\n",
        ("tests/broker/coordinator/transactions/test_completion.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a coordinator that has resigned writes markers",
        f"{_PACKAGE}/completion.py",
        "        if not self._runtime.is_active(partition, one.shard.coordinator_epoch):\n",
        "        if partition < 0:\n",
        ("tests/broker/coordinator/transactions/test_completion.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a final state that could not be written is forgotten",
        f"{_PACKAGE}/completion.py",
        "        return finishing is None\n",
        "        return True\n",
        ("tests/broker/coordinator/transactions/test_completion.py",),
    ),
    Mutation(
        "a transaction of two-phase commit times out",
        f"{_PACKAGE}/transaction.py",
        " and self.timeout_ms != WITHOUT_TIMEOUT_MS",
        "",
        (f"{_COORDINATOR}::test_two_phase_commit_must_be_allowed_and_has_no_timeout",),
    ),
    Mutation(
        "every node allows two-phase commit",
        f"{_PACKAGE}/transaction_coordinator.py",
        "        if two_phase_commit and not self._settings.two_phase_commit_enabled:\n",
        "        if two_phase_commit and not self._settings:\n",
        (f"{_COORDINATOR}::test_two_phase_commit_must_be_allowed_and_has_no_timeout",),
    ),
    Mutation(
        "a commit sends the second batch of a transaction only after the first",
        "client/producer/record_accumulator.py",
        " and not lane.established and self.transaction is None)",
        " and not lane.established)",
        ("tests/client/producer/test_record_accumulator.py",),
    ),
    Mutation(
        "two verifications of one transactional id share a request",
        f"{_PACKAGE}/partition_verifier.py",
        "            connections, self._send, key=lambda question: question.transactional_id\n",
        "            connections, self._send\n",
        ("tests/broker/coordinator/transactions/test_partition_verifier.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a marker that is not committed counts as written",
        f"{_PACKAGE}/marker_log.py",
        "        return _until_committed(partition, written, deadline)\n",
        "        return None\n",
        (f"{_STEPS}::test_a_leader_dies_with_a_marker_that_its_followers_do_not_have",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a marker whose answer is lost counts as written",
        f"{_PACKAGE}/marker_channel.py",
        "            return dict.fromkeys(names, ErrorCode(error.code))\n",
        "            return dict.fromkeys(names, ErrorCode.NONE)\n",
        (f"{_STORIES}::test_a_leader_dies_before_it_has_the_marker",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a marker of an earlier coordinator ends a transaction",
        "storage/producer_state.py",
        "marker.coordinator_epoch < producer.coordinator_epoch:",
        "marker.coordinator_epoch < -1:",
        (f"{_STEPS}::test_a_coordinator_of_before_does_not_end_the_next_transaction",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a new group coordinator takes the offsets of an open transaction for committed",
        "broker/coordinator/replay.py",
        "    producer_id = batch.producer_id if batch.is_transactional else NO_PRODUCER\n",
        "    producer_id = NO_PRODUCER\n",
        (f"{_STEPS}::test_a_group_coordinator_dies_with_offsets_that_are_pending",),
        seeds=8,
    ),
    Mutation(
        "a partition counts as verified if its coordinator is lost while it is asked",
        "broker/apis/produce_in_transaction.py",
        "        if error_code:\n",
        "        if error_code and error_code not in COORDINATOR_ERRORS:\n",
        (f"{_STEPS}::test_what_is_asked_about_a_partition_moves_meanwhile",),
        seeds=4,
    ),
    Mutation(
        "a broker that leads no more, once a partition is verified, appends",
        "broker/partitions/partition.py",
        "        self.check_leader()\n        if acks == ALL and self.is_under_min_isr:\n",
        "        if acks == ALL and self.is_under_min_isr:\n",
        (f"{_STEPS}::test_what_is_asked_about_a_partition_moves_meanwhile",),
        seeds=1,
    ),
    Mutation(
        "a transaction whose outcome is decided times out",
        f"{_PACKAGE}/transaction.py",
        "        return self.state is ONGOING and",
        "        return self.state in (ONGOING, PREPARE_COMMIT) and",
        (f"{_COORDINATOR}::test_a_commit_that_is_decided_does_not_time_out",),
    ),
    Mutation(
        "a commit that comes after the time-out ends the transaction once more",
        f"{_PACKAGE}/end_transaction.py",
        "        same = (current.state is PREPARE_COMMIT) == commit or not repeated\n",
        "        same = True\n",
        (f"{_COORDINATOR}::test_a_commit_comes_too_late_as_soon_as_the_time_out_is_in_the_log",),
    ),
    Mutation(
        "the next producer id of a producer without epochs is not in the log",
        f"{_PACKAGE}/transaction_records.py",
        "        next_producer_id=value.next_producer_id,\n",
        "",
        (f"{_COORDINATOR}::test_the_next_coordinator_goes_on_with_the_new_id_of_a_producer_without_epochs",),
    ),
)
