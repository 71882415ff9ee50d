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
)
