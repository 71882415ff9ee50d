"""Planted bugs in the client: fetch sessions, finding the cluster again, what is processed, and what moves."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_SESSION = "client/consumer/fetch_session.py"
_SESSIONS = tuple(
    f"tests/client/consumer/test_fetch_session.py::{name}"
    for name in (
        "test_a_request_contains_what_is_new_has_moved_or_is_no_longer_wanted",
        "test_a_topic_that_was_made_anew_replaces_the_old_one",
        "test_a_lost_response_closes_the_session",
        "test_a_full_response_without_some_partitions_begins_no_session",
    )
)
_LACKING = "tests/client/connections/test_lacking_answers.py"
_BOOTSTRAP = "client/connections/bootstrap.py"
_CLUSTER = "client/connections/cluster_client.py"
_RECOVERY = tuple(
    f"tests/client/connections/test_bootstrap.py::{name}"
    for name in (
        "test_the_bootstrap_addresses_are_tried_when_all_known_brokers_are_gone",
        "test_a_broker_that_requires_it_is_left_at_once",
        "test_the_time_begins_again_with_each_success",
        "test_a_connection_that_was_being_opened_meanwhile_is_not_used",
    )
)
_STORIES = "tests/simulation/test_client_stories.py"
_COMPACTION = "tests/simulation/test_compaction_stories.py"
_VALIDATION = "client/consumer/position_validation.py"
_VALIDATIONS = ("tests/client/consumer/test_position_validation.py",)

_SETTLED = "tests/client/consumer/test_settled.py"
_ACCUMULATOR = "client/producer/record_accumulator.py"
_LATE = (
    *(
        f"tests/client/producer/test_record_accumulator.py::{name}"
        for name in (
            "test_a_batch_whose_lost_request_may_arrive_late_keeps_its_numbers",
            "test_batches_that_were_never_sent_get_new_numbers_once_those_that_may_arrive_late_have_expired",
        )
    ),
    "tests/client/producer/test_record_accumulator_against_a_broker.py",
)

MUTATIONS = (
    Mutation(
        "a task that has ended in its loop keeps others from reading",
        "client/consumer/one_reader.py",
        "        has_ended = task is None or getattr(task, \"cr_frame\", task) is None\n",
        "        has_ended = False\n",
        ("tests/client/consumer/test_one_reader.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a blocking client can be copied, and the copies share a thread",
        "client/mixups.py",
        '    """The errors of a blocking client that is used like an async one."""\n\n    __reduce_ex__ = _refuse',
        '    """The errors of a blocking client that is used like an async one."""\n\n    _refuse = _refuse',
        ("tests/client/test_mixups.py::test_a_client_is_neither_copied_nor_pickled",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a request that needs a newer version raises an error of the codec",
        "client/connections/connection.py",
        "            if _fits_newer(message, version):\n",
        "            if False:\n",
        ("tests/client/connections/test_connection.py::test_a_request_that_needs_a_newer_version_is_refused",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the errors of single items are returned at once, though they pass",
        "client/admin/item_errors.py",
        "        for one in errors.values():\n",
        "        for one in ():\n",
        (f"{_LACKING}::test_an_error_that_passes_is_neither_raised_nor_returned",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "topics with an error are not listed",
        "client/admin/admin_topics.py",
        "for one in response.topics if one.name and (include_internal or not one.is_internal))",
        "for one in response.topics if not one.error_code)",
        (f"{_LACKING}::test_topics_are_listed_whatever_errors_they_have",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "with stop_at a committed offset beyond the end counts as the end",
        "client/consumer/partition_state.py",
        "self.stop_offset < offset <= self.high_watermark",
        "self.stop_offset < offset",
        ("tests/client/consumer/test_stop_at.py::test_a_committed_offset_beyond_the_end_is_out_of_range",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a connection that is made as its caller is cancelled stays open",
        "client/connections/bootstrap.py",
        "            connection.close()\n",
        "            pass\n",
        ("tests/client/connections/test_cancelled_bootstrap.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a level of compression that its codec has not is found when the first batch is encoded",
        "client/options.py",
        "        self._check_level(owner)\n",
        "",
        ("tests/client/test_options.py::test_a_level_is_one_of_the_codec_as_in_kafka",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "level -1 of gzip is given to the codec",
        "protocol/records/compression.py",
        "None if level == GZIP_DEFAULT_LEVEL else level",
        "level",
        ("tests/protocol/records/test_compression.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a loop over records forgets a batch that an interrupted read took",
        "client/blocking/consumer.py",
        "                if self._batch is not None:\n                    super()._run(self._return_taken)\n",
        "",
        ("tests/client/consumer/test_interrupted_reads.py",),
    ),
    Mutation(
        "a wait of the connector within another one is told as well",
        "spark_connector/brokers/waiting.py",
        "    if outer is not None:\n",
        "    if outer is not None and not outer:\n",
        ("tests/spark/test_waiting.py",),
    ),
    Mutation(
        "a signal between the end of the queue and the loop loses a record",
        "client/blocking/consumer.py",
        "record = self._yielded = self._taken[0]\n                            del self._taken[0]",
        "record = self._yielded = self._taken.popleft()\n                            str()",
        ("tests/client/consumer/test_interrupted_reads.py",),
    ),
    Mutation(
        "what an interrupted read takes while it ends is returned after the next call",
        "client/blocking/consumer.py",
        "        self._return_taken()\n        return function()\n",
        "        result = function()\n        self._return_taken()\n        return result\n",
        ("tests/client/consumer/test_interrupted_reads.py",),
    ),
    Mutation(
        "an interrupted read of a batch is not taken back",
        "client/blocking/consumer.py",
        "and self._yielded is None and self._batch is None:",
        "and self._yielded is None:",
        ("tests/client/consumer/test_interrupted_reads.py",),
    ),
    Mutation(
        "a client at a controller's address speaks of versions",
        "client/connections/broker_offer.py",
        "if api.key == _METADATA_KEY and high < 0 and _BROKER",
        "if api.key == _METADATA_KEY and high > 0 and _BROKER",
        ("tests/client/connections/test_connection.py::test_a_controller_is_named_as_such",),
    ),
    Mutation(
        "a batch whose lost request may arrive late is sent again with a new epoch",
        _ACCUMULATOR,
        "return batch.lost and () < self.unresolved < batch.number",
        "return False",
        _LATE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a batch that expired before its connection was lost counts as refused",
        _ACCUMULATOR,
        "            self._note_unresolved(lane, batch)\n            return\n",
        "            return\n",
        _LATE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a producer fears late requests although newer batches were delivered",
        _ACCUMULATOR,
        "        if batch.number > lane.unresolved:\n            lane.unresolved = ()\n",
        "",
        _LATE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "batches that were never sent continue the numbers of those that may arrive late",
        _ACCUMULATOR,
        "for one in lane.queue) if lane.unresolved else False",
        "for one in lane.queue) if lane.reset_wanted else False",
        _LATE,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a consumer that waits for a seek looks for its position again and again",
        "client/consumer/fetch_state.py",
        "if one.fetch_offset is None and one.reset != NO_RESET]",
        "if one.fetch_offset is None]",
        ("tests/simulation/test_loop_stories.py::test_a_consumer_that_waits_for_a_seek_uses_no_processor",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "partitions that are no longer wanted stay in the fetch session",
        _SESSION,
        "gone = {tp: one for tp, one in before.items() if tp not in wanted or wanted[tp].topic_id != one.topic_id}",
        "gone = {tp: one for tp, one in before.items() if tp in wanted and wanted[tp].topic_id != one.topic_id}",
        (f"{_STORIES}::test_a_fetch_session_follows_what_the_consumer_wants",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a topic that was made anew is added to the fetch session beside the old one",
        _SESSION,
        "if tp not in wanted or wanted[tp].topic_id != one.topic_id}",
        "if tp not in wanted}",
        _SESSIONS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an incremental fetch omits partitions whose offset has changed",
        _SESSION,
        "if before.get(tp) != one] if before",
        "if tp not in before] if before",
        (f"{_STORIES}::test_a_fetch_session_follows_what_the_consumer_wants",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "after a lost response the fetch session goes on",
        _SESSION,
        "        self.epoch = FULL\n        if not keep_id:\n",
        "        if not keep_id:\n            self.epoch = FULL\n",
        _SESSIONS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a response under a quota opens a fetch session of which the broker knows nothing",
        _SESSION,
        "        if response.session_id == NO_SESSION or lacks_some:\n",
        "        if response.session_id == NO_SESSION:\n",
        _SESSIONS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a client that knows brokers never tries its bootstrap addresses",
        _BOOTSTRAP,
        "        if not known or self.begins_again:\n",
        "        if not known:\n",
        (f"{_STORIES}::test_a_client_whose_brokers_are_gone_begins_with_its_bootstrap_addresses",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the time without metadata counts from the first request ever",
        _BOOTSTRAP,
        '"""There are new metadata."""\n        self._tried_since = None\n',
        '"""There are new metadata."""\n',
        (f"{_STORIES}::test_a_client_that_gets_metadata_does_not_begin_anew",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a client that bootstraps again keeps the brokers it knew",
        _CLUSTER,
        "        self.metadata.brokers = {}\n",
        "",
        _RECOVERY,
    ),
    Mutation(
        "a connection to a former cluster is used if it was opened while the client began again",
        _CLUSTER,
        "        if self._bootstrap.rounds != began:\n",
        "        if self._bootstrap.rounds < began:\n",
        _RECOVERY,
    ),
    Mutation(
        "a consumer that has unsubscribed waits without a word",
        "client/consumer/subscription.py",
        "            self._fetcher.left, self._fetcher.why_nothing = {}, NOT_CHOSEN\n",
        "",
        ("tests/client/consumer/test_nothing_to_read.py",),
    ),
    Mutation(
        "records of a list count as processed before the application has asked for more",
        "client/consumer/fetch_state.py",
        "        chunk.by_list = True\n",
        "        chunk.by_list = False\n",
        ("tests/client/consumer/test_fetch_state.py::test_a_list_of_records_is_processed_as_a_whole",),
    ),
    Mutation(
        "a member of a cooperative group gives up all that it has before it joins again",
        "client/groups/classic_session.py",
        "        if not membership.cooperative and self.known:\n",
        "        if self.known:\n",
        (
            "tests/simulation/test_gap_stories.py"
            "::test_nine_of_twelve_partitions_are_read_without_a_gap_while_a_fifth_member_joins",
        ),
    ),
    Mutation(
        "a member does not acknowledge an assignment that is the list of partitions which it sent before",
        "client/groups/consumer_membership.py",
        "        return None if self._sent is None or response.assignment is not None else self._sent[2]\n",
        "        return None if self._sent is None else self._sent[2]\n",
        (
            "tests/client/groups/test_topics_made_anew_in_any_order.py"
            "::test_each_record_of_the_new_topic_is_read_once[consumer-alone]",
        ),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a member gives up all its partitions where some of them move",
        "client/groups/consumer_session.py",
        "        if removed:\n            await self._revoke(removed)\n",
        "        if removed:\n            await self._revoke(list(self.known))\n",
        ("tests/simulation/test_group_stories.py::test_members_come_and_go_and_no_partition_has_two_or_none",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "what a checksum covers decides before the checksum is compared",
        "client/consumer/fetched_chunks.py",
        "if options.check_crcs else None)",
        "if not options.check_crcs else None)",
        (f"{_COMPACTION}::test_the_cleaner_does_not_hide_that_a_record_has_changed_on_the_disk",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a leader older than the committed offset is asked",
        "client/consumer/background_fetch.py",
        "        metadata.learn_epoch(topic, partition, state.fetch_epoch)\n",
        "",
        ("tests/client/consumer/test_leaders_and_replicas.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a committed offset has the leader epoch of the last batch that was fetched",
        "client/consumer/partition_state.py",
        "        index = bisect_left(self._epochs, (offset, -1))",
        "        index = len(self._epochs)",
        ("tests/client/consumer/test_leaders_and_replicas.py",),
        TEST_ONLY,
    ),
    Mutation(
        "metadata are requested again from the broker whose metadata are old",
        "client/connections/cluster_client.py",
        "if one.address in self._behind)",
        "if one.address == \"\")",
        ("tests/client/consumer/test_leaders_and_replicas.py",),
        TEST_ONLY,
    ),
    Mutation(
        "an address that refused is not tried again while another one is silent",
        "client/connections/bootstrap.py",
        "            await anyio.sleep(pause_s(number))\n",
        "            return\n",
        ("tests/client/connections/test_cluster_client.py",),
        TEST_ONLY,
    ),
    Mutation(
        "without a descriptor and an open file, the list of open files is taken for one that has some",
        "storage/disks/open_files.py",
        "        while self._sweepable and ",
        "        while ",
        ("tests/storage/disks/test_disk.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a leader epoch that metadata have named is given up for an older one",
        "client/connections/cluster_metadata.py",
        "if not (believed and uncertain and known.leader < 0):",
        "if not (believed and known.leader < 0):",
        ("tests/client/connections/test_cluster_client.py",),
        TEST_ONLY,
    ),
    Mutation(
        "an answer about a leader epoch decides about a position that is in a later one by now",
        _VALIDATION,
        "self.state.era == self.era and self.state.fetch_epoch == self.fetch_epoch",
        "self.state.era == self.era",
        _VALIDATIONS,
        TEST_ONLY,
    ),
    Mutation(
        "a leader's answer moves a position that a later leader has confirmed",
        _VALIDATION,
        "        return asked_about and self.state.needs_validation(self.leader_epoch)\n",
        "        return asked_about\n",
        _VALIDATIONS,
        TEST_ONLY,
    ),
    Mutation(
        "a leader is asked again about positions that it has confirmed, because another one was not settled",
        _VALIDATION,
        " if one.needs_validation(epoch)]\n",
        "]\n",
        _VALIDATIONS,
        TEST_ONLY,
    ),
    Mutation(
        "a new leader that does not answer keeps positions from being compared with the logs of others",
        "client/consumer/background_fetch.py",
        "in self._unvalidated() if one not in self._validating]",
        "in self._unvalidated() if not self._validating][:1]",
        ("tests/client/consumer/test_leaders_and_replicas.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a record that the application commits is not settled",
        "client/consumer/consumer.py",
        "            self._fetcher.settle(tp, offsets.offset + 1)\n",
        "",
        (f"{_SETTLED}::test_a_record_is_committed_with_its_leader_epoch_and_a_foreign_client_reads_it",),
    ),
    Mutation(
        "an automatic commit goes back behind a record that the application has committed",
        "client/consumer/chunk.py",
        "max(self.records[self.taken - 1].offset, settled or 0)",
        "self.records[self.taken - 1].offset",
        (f"{_SETTLED}::test_automatic_commits_do_not_go_back_behind_a_settled_record",),
    ),
    Mutation(
        "a record of before a seek settles what the consumer has not returned since",
        "client/consumer/fetch_state.py",
        "max(state.processed or 0, min(offset, position))",
        "max(state.processed or 0, offset)",
        (f"{_SETTLED}::test_only_records_that_were_returned_can_be_settled",),
    ),
    Mutation(
        "what is settled has no leader epoch",
        "client/consumer/consumer.py",
        "OffsetAndMetadata(one, \"\", states[tp].epoch_before(one)) for tp",
        "OffsetAndMetadata(one) for tp",
        (f"{_SETTLED}::test_settled_is_what_was_returned_before_the_last_step",),
    ),
    Mutation(
        "a response that lacks what was asked for is taken for an answer",
        "client/connections/answers.py",
        "    if asked != answered:\n",
        "    if answered - asked:\n",
        ("tests/client/connections/test_lacking_answers.py",),
    ),
    Mutation(
        "an assignor that was not offered is looked up",
        "client/groups/classic_membership.py",
        "if self.is_leader and self.protocol not in self._assignors:",
        "if self.is_leader and not self.protocol:",
        ("tests/client/connections/test_lacking_answers.py::test_only_kafka_errors_are_raised[poll, classic]",),
    ),
    Mutation(
        "an error of a value that brokers limit does not name the value",
        "client/broker_limits.py",
        "        if code == limited and hasattr(options, name):\n",
        "        if False:\n",
        ("tests/client/test_broker_limits.py::test_the_error_names_value_and_limits",),
    ),
    Mutation(
        "a controller that is not ready is asked about for a minute",
        "client/admin/admin_requests.py",
        "            if error.code in final:\n",
        "            if False:\n",
        ("tests/client/test_added_voters.py::test_a_voter_that_is_not_ready_is_asked_about_once",),
    ),
    Mutation(
        "a producer's batches that are open take records in a forked process",
        "client/connections/seams.py",
        "        one.on_fork()\n",
        "        pass\n",
        ("tests/client/test_homes.py::test_a_call_in_a_forked_process_raises_and_the_parent_goes_on",),
    ),
    Mutation(
        "a consumer that is closed keeps what it has buffered",
        "client/consumer/consumer.py",
        "        self._iterations.end()\n",
        "        pass\n",
        ("tests/client/consumer/test_buffers_given_up.py",),
    ),
    Mutation(
        "a connection that is lost keeps the response that had begun",
        "client/connections/connection.py",
        "        self.frames = FrameReader(RESPONSE_SIZE_BYTES_MAX)  # Who",
        "        # Who",
        ("tests/client/consumer/test_buffers_given_up.py",),
    ),
    Mutation(
        "what a callback raises to end the program is raised by no thread",
        "client/blocking/loop_thread.py",
        "        self._interruptions.append(error)\n",
        "        pass\n",
        (
            "tests/client/test_loop_that_ends.py"
            "::test_what_a_callback_raises_to_end_the_program_is_raised_in_the_application_and_the_client_goes_on",
        ),
    ),
)
