"""Planted bugs in the client: fetch sessions, and finding the cluster again."""

from mutations import Mutation

_SESSION = "client/consumer/fetch_session.py"
_SESSIONS = ("tests/client/consumer/test_fetch_session.py", "-k", "not kafka")
_BOOTSTRAP = "client/connections/bootstrap.py"
_CLUSTER = "client/connections/cluster_client.py"
_RECOVERY = ("tests/client/connections/test_bootstrap.py", "-k", "not trio")

MUTATIONS = (
    Mutation(
        "partitions that are no longer wanted stay in the fetch session",
        _SESSION,
        "gone = {tp: one for tp, one in before.items() if tp not in wanted or wanted[tp].topic_id != one.topic_id}",
        "gone = {tp: one for tp, one in before.items() if tp in wanted and wanted[tp].topic_id != one.topic_id}",
        _SESSIONS,
    ),
    Mutation(
        "a topic that was made anew is added to the fetch session beside the old one",
        _SESSION,
        "if tp not in wanted or wanted[tp].topic_id != one.topic_id}",
        "if tp not in wanted}",
        _SESSIONS,
    ),
    Mutation(
        "an incremental fetch omits partitions whose offset has changed",
        _SESSION,
        "if before.get(tp) != one] if before",
        "if tp not in before] if before",
        _SESSIONS,
    ),
    Mutation(
        "after a lost response the fetch session goes on",
        _SESSION,
        "        self.epoch = FULL\n        if not keep_id:\n",
        "        if not keep_id:\n            self.epoch = FULL\n",
        _SESSIONS,
    ),
    Mutation(
        "a response under a quota opens a fetch session of which the broker knows nothing",
        _SESSION,
        "        if response.session_id == NO_SESSION or lacks_some:\n",
        "        if response.session_id == NO_SESSION:\n",
        _SESSIONS,
    ),
    Mutation(
        "a client that knows brokers never tries its bootstrap addresses",
        _BOOTSTRAP,
        "        if not known or self.begins_again:\n",
        "        if not known:\n",
        _RECOVERY,
    ),
    Mutation(
        "the time without metadata counts from the first request ever",
        _BOOTSTRAP,
        '"""There are new metadata."""\n        self._tried_since = None\n',
        '"""There are new metadata."""\n',
        _RECOVERY,
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
)
