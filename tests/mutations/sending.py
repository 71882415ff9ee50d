"""Planted bugs in how a producer sends: what it keeps in memory, and what it delivers at its end."""

from mutations import TEST_ONLY, Mutation

_FULL = "tests/client/producer/test_full_sockets.py"

MUTATIONS = (
    Mutation(
        "with acks=0 records leave buffer_memory though the socket has not accepted them",
        "client/connections/connection.py",
        "        if pending.response is None and not self._stream.is_full:\n",
        "        if pending.response is None:\n",
        (_FULL, "tests/client/connections/test_connection.py"),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "with acks=0 records count as sent that a socket did not accept before it failed",
        "client/connections/trio_socket.py",
        "        return bool(self._out) or not self._is_open\n",
        "        return bool(self._out)\n",
        ("tests/client/connections/test_trio_socket.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a delivery keeps the records of its batch",
        "client/producer/producer_batch.py",
        "        self.keys, self.values, self.headers, self.callbacks = [], [], {}, []\n",
        "        self.headers, self.callbacks = {}, []\n",
        ("tests/client/producer/test_kept_deliveries.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "what callbacks send while a producer's block is left is dropped",
        "client/blocking/producer.py",
        "                self._wait(self._deliver_all)\n",
        "                self._wait(self._emptied)\n",
        ("tests/client/producer/test_sent_by_callbacks.py",),
        seeds=TEST_ONLY,
    ),
)
