"""Planted bugs in what waits: responses held back, watchers that stay, waits that end too late."""

from mutations import TEST_ONLY, Mutation

_CONNECTIONS = "tests/broker/connections/test_connection.py"
_REQUESTS = "tests/broker/connections/test_request_memory.py"
_FETCHING = "tests/broker/replication/test_fetching.py"
_WAITERS = "broker/partitions/request_waiters.py"
_WAITING = (
    "tests/broker/connections/test_request_memory.py::"
    "test_requests_that_wait_for_members_of_a_group_hold_no_room_and_no_frame"
)
_MEMBERS_SIZE = "tests/broker/coordinator/groups/classic/test_members_size.py"
_CONNECTION = "broker/connections/connection.py"
_EXCHANGE = "broker/connections/exchange.py"
_USUAL = "broker/apis/usual_produce.py"
_SHORTCUT = "tests/broker/apis/test_usual_produce.py"

MUTATIONS = (
    Mutation(
        "the shortcut for usual requests does not look at what follows the batch",
        _USUAL,
        "        if not start <= end <= len(frame) or frame[end:] != shape.tail:\n",
        "        if not start <= end <= len(frame):\n",
        (f"{_SHORTCUT}::test_what_follows_the_batch_has_to_be_as_before",),
    ),
    Mutation(
        "the shortcut for usual requests takes a size of records beyond the request",
        _USUAL,
        "        if not start <= end <= len(frame) or frame",
        "        if start > end or frame",
        (f"{_SHORTCUT}::test_the_size_of_the_records_has_to_be_that_of_the_batch",),
    ),
    Mutation(
        "the shortcut for usual requests keeps what follows the batch, whatever its size",
        _USUAL,
        "        around = len(key) + len(frame) - end\n",
        "        around = len(key)\n",
        (f"{_SHORTCUT}::test_requests_of_many_shapes_take_bounded_memory",),
    ),
    Mutation(
        "the shortcut for usual requests acknowledges what is not flushed yet",
        _USUAL,
        "    if partition.log.config.flush_messages < NEVER:\n        return True\n",
        "",
        (f"{_SHORTCUT}::test_a_batch_that_has_to_be_flushed_waits",),
    ),
    Mutation(
        "the shortcut for usual requests leaves a frame with the offsets of a failed append",
        _USUAL,
        "            data[ASSIGNED] = as_sent\n",
        "",
        (f"{_SHORTCUT}::test_a_disk_that_fails_gives_the_error_of_the_general_path",),
    ),
    Mutation(
        "a begun coroutine may wait without a task",
        "storage/waits.py",
        "        if wait is not IN_TASK and not isinstance(wait, Offered):\n",
        "        if wait is None:\n",
        ("tests/storage/test_waits.py",),
    ),
    Mutation(
        "what has begun beside a coroutine that fails never ends",
        "storage/waits.py",
        "            if isinstance(one, Rest):\n                one.close()\n",
        "            pass\n",
        ("tests/storage/test_waits.py",),
    ),
    Mutation(
        "what is awaited in a task waits for a task once more",
        "storage/waits.py",
        "        _runs_without_task = before\n",
        "        pass\n",
        ("tests/storage/test_waits.py",),
    ),
    Mutation(
        "a fetch that has waited for its task does not look again at what it has read",
        "broker/apis/fetch.py",
        "    await (in_task() if few is None else offered(few))\n",
        "    if few is not None:\n        await offered(few)\n",
        ("tests/broker/apis/test_fetch_begin.py",),
    ),
    Mutation(
        "responses are held back while a later request waits",
        _EXCHANGE,
        "        if self._unsent:\n            return SENDING\n",
        "        if self._unsent and self._begun is None:\n            return SENDING\n",
        (f"{_CONNECTIONS}::test_a_waiting_request_does_not_hold_back_earlier_responses",),
    ),
    Mutation(
        "a response does not wait for the rest of an earlier one",
        _CONNECTION,
        "        await self.transport.send(self._exchange.take())\n",
        "        trio.lowlevel.spawn_system_task(self.transport.send, self._exchange.take())\n",
        (f"{_CONNECTIONS}::test_what_the_kernel_does_not_take_is_sent_while_a_later_request_waits",),
    ),
    Mutation(
        "a malformed request discards the responses to those before it",
        _EXCHANGE,
        "        if self._unsent:\n            return SENDING\n",
        "        if self._unsent and self.failure is None:\n            return SENDING\n",
        (f"{_CONNECTIONS}::test_requests_before_a_malformed_one_are_answered",),
    ),
    Mutation(
        "a turn sends while the task sends the rest of an earlier response",
        _CONNECTION,
        "        if before is PARKED and not self._sends_at_once():",
        "        if not self._sends_at_once():",
        (f"{_CONNECTIONS}::test_a_delivered_response_follows_what_the_kernel_did_not_take",),
    ),
    Mutation(
        "a long poll that found too little does not wait on",
        "broker/connections/long_polls.py",
        "            self._watch(group)\n            self._expire_at(next",
        "            self._expire_at(next",
        ("tests/broker/connections/test_long_polls.py::test_a_group_waits_until_enough_has_come",),
    ),
    Mutation(
        "a request joins a group that is being answered",
        "broker/connections/long_polls.py",
        "            del self._groups[group.key]  # still a listener: listeners are being called\n",
        "",
        ("tests/broker/connections/test_long_polls.py::test_equal_requests_are_answered_by_one_read",),
    ),
    Mutation(
        "a closed fetch session tracks partitions again when its fetch wakes up",
        _WAITERS,
        "if self.closed or (known is not None and known[0][0] is signals[0][0]):",
        "if known is not None and known[0][0] is signals[0][0]:",
        (f"{_FETCHING}::test_a_session_that_is_closed_while_its_fetch_sleeps_leaves_nothing_behind",),
    ),
    Mutation(
        "waits that were cancelled stay until the partition grows",
        _WAITERS,
        "        self._cancelled += 1\n",
        "",
        (f"{_FETCHING}::test_waits_that_were_cancelled_are_removed",),
    ),
    Mutation(
        "a commit in a listener takes in what was returned and not processed",
        "client/consumer/subscription.py",
        "self._fetcher.positions(processed_only=self.settled_only)",
        "self._fetcher.positions()",
        (
            "tests/client/groups/test_listeners.py::test_a_listener_that_is_called_by_a_crash_commits_what_was_processed",
        ),
    ),
    Mutation(
        "offsets are committed for the present generation, whatever they were taken with",
        "client/consumer/record_owners.py",
        "        return min((taken_by.get(tp, group.member) for tp in positions), default=group.member)\n",
        "        return group.member\n",
        ("tests/client/groups/test_commits.py",),
    ),
    Mutation(
        "a revocation that waits for the application sends no heartbeats",
        "client/groups/group_session.py",
        "                        await self._keep_membership()\n",
        "                        pass\n",
        (
            "tests/client/groups/test_listeners.py::"
            "test_a_revocation_waits_for_the_application_and_heartbeats_keep_the_membership",
        ),
    ),
    Mutation(
        "heartbeats of a group that fail are not reported",
        "client/groups/group_waits.py",
        "        if group is None or not group.is_stable or group.failing_since is None:\n",
        "        if group is None or group.is_stable or group.failing_since is None:\n",
        ("tests/client/groups/test_every_error.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "who polls on after the end of a membership is not told",
        "client/groups/group_waits.py",
        "        is_member = group is not None and group.is_stable and group.ended_by is None\n",
        "        is_member = group is not None and group.is_stable\n",
        ("tests/client/groups/test_every_error.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "clients that send a large request too slowly keep others waiting",
        _CONNECTION,
        "        rooms = self.info.unsent, self.info.received if is_transferring else None\n",
        "        rooms = self.info.unsent, None\n",
        (_REQUESTS,),
    ),
    Mutation(
        "clients are disconnected for the time that their large request takes in the node",
        _CONNECTION,
        "        rooms = self.info.unsent, self.info.received if is_transferring else None\n",
        "        rooms = self.info.unsent, self.info.received\n",
        (_REQUESTS,),
    ),
    Mutation(
        "a few bytes of a request hold the room of all of it",
        _CONNECTION,
        "        if received_bytes >= UNCOUNTED_SIZE_BYTES_MAX and self.info.received is None:\n",
        "        if self.info.received is None:\n",
        (_REQUESTS,),
    ),
    Mutation(
        "a request that waits for members of a group holds the room of its bytes",
        "broker/connections/dispatcher.py",
        "            if header.api_key in AWAIT_MEMBERS:\n",
        "            if False:\n",
        (_WAITING,),
    ),
    Mutation(
        "the bytes of a request that waits are kept though it is decoded",
        "broker/connections/dispatcher.py",
        "            del frame\n",
        "            pass\n",
        (_WAITING,),
    ),
    Mutation(
        "the metrics keep the bytes of a request that waits",
        "broker/connections/stopwatch.py",
        "frame[:HEAD_SIZE_BYTES], len(frame)",
        "frame, len(frame)",
        (_WAITING,),
    ),
    Mutation(
        "a follower that waits for its assignment keeps what it has assigned itself",
        "broker/coordinator/groups/classic/classic_sync.py",
        "    request.assignments = []",
        "    pass",
        (f"{_MEMBERS_SIZE}::test_a_waiting_sync_group_keeps_no_assignments",),
    ),
    Mutation(
        "a member that is refused is gone, and its waiting request stays",
        "broker/coordinator/groups/classic/classic_join.py",
        "        remove_member(builder, group, request.member_id)\n",
        "        group.remove(request.member_id)\n",
        (f"{_MEMBERS_SIZE}::test_the_waiting_requests_of_a_member_that_is_refused_are_answered",),
    ),
    Mutation(
        "the partitions of a pattern are looked for once for each topic",
        "client/consumer/subscription.py",
        "        found: dict[str, list[TopicPartition]] = {name: [] for name in names}\n"
        "        for tp in states:\n            if tp.topic in found:\n                found[tp.topic].append(tp)\n",
        "        found = {name: [tp for tp in states if tp.topic == name] for name in names}\n",
        ("tests/client/consumer/test_many_topics.py",),
        TEST_ONLY,
    ),
    Mutation(
        "trio ends the generator of a loop that was left",
        "client/going_on.py",
        "        sys.set_asyncgen_hooks(firstiter=None, finalizer=None)\n",
        "",
        ("tests/client/consumer/test_going_on.py",),
        TEST_ONLY,
    ),
    Mutation(
        "whether a topic is assigned is looked up for each, though it exists",
        "client/consumer/missing_offsets.py",
        "        return isinstance(error, UnknownTopicOrPartitionError) and any(\n"
        "            tp.topic == topic for tp in self._fetcher.states\n        )\n",
        "        is_assigned = any([tp.topic == topic for tp in self._fetcher.states])\n"
        "        return is_assigned and isinstance(error, UnknownTopicOrPartitionError)\n",
        ("tests/client/consumer/test_many_topics.py",),
        TEST_ONLY,
    ),
)
