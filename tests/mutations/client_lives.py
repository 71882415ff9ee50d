"""Planted bugs in the life of a client: what it waits for without a word, and how it begins and ends."""

from mutations import TEST_ONLY, Mutation

_WAITS = ("tests/client/test_waits.py",)

MUTATIONS = (
    Mutation(
        "a wait is logged once",
        "client/connections/waits.py",
        "now - self._told[look] >= INTERVAL_S",
        "self._told[look] == float(\"-inf\")",
        _WAITS,
        TEST_ONLY,
    ),
    Mutation(
        "records that nobody awaits are waited for in silence",
        "client/producer/sender.py",
        "        self._cluster.waits.begin(self.undelivered)\n",
        "",
        _WAITS,
        TEST_ONLY,
    ),
    Mutation(
        "an address that does not answer is not named once connecting has timed out",
        "client/connections/broker_troubles.py",
        "            if anyio.current_time() - began >= _SILENT_S:\n",
        "            if False:\n",
        _WAITS,
        TEST_ONLY,
    ),
    Mutation(
        "an interrupted call goes on in the event loop",
        "client/blocking/loop_thread.py",
        "            if future.cancel():\n                ended.wait(_CANCEL_TIMEOUT_S)\n            raise\n",
        "            raise\n",
        ("tests/client/test_lives.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a second task may read from a consumer while the first one processes a record",
        "client/consumer/one_reader.py",
        "iterator.ag_frame is not None and",
        "iterator.ag_frame is None and",
        ("tests/client/consumer/test_one_reader.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a forked process does not know that its clients have no threads",
        "client/blocking/portal.py",
        "os.register_at_fork(after_in_child=_forget_open_clients)\n",
        "",
        ("tests/client/test_lives.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a transaction that is cancelled while it is being committed is left open",
        "client/producer/transactions.py",
        "        return self.state.can_abort or self.state.phase is Phase.COMMITTING\n",
        "        return self.state.can_abort and self.state.phase is not Phase.COMMITTING\n",
        ("tests/client/producer/test_cancelled_transactions.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a partition that does not exist is asked for for ever, once its offset is known",
        "client/consumer/background_fetch.py",
        "        self._report_missing_partition(state.tp)\n",
        "",
        ("tests/client/consumer/test_missing_partitions.py",),
        TEST_ONLY,
    ),
    Mutation(
        "a delivery is awaited in an event loop in which nobody completes it",
        "client/connections/seams.py",
        "if self._running_loop() is not self._loop or os.getpid() != self._process:",
        "if os.getpid() != self._process:",
        ("tests/client/test_homes.py",),
        TEST_ONLY,
    ),
)
