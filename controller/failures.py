"""`FAILURES` counts the requests and tasks of this process that failed because of a bug of minikafka, for the metrics.

An unexpected exception ends only the request or task in which it is raised: a request is answered UNKNOWN_SERVER_ERROR,
a connection is closed, a deadline comes again. The code that catches an exception logs it with its trace and counts it.
"""

from collections import Counter

__all__ = ["FAILURES"]

FAILURES: Counter[str] = Counter({"connection": 0, "deadline": 0, "decision": 0, "metadata": 0, "peer": 0, "raft": 0})
"""The number of failures by name of the API, or by `decision`, `deadline`, `connection`, `metadata`, `peer`, `raft`. A
process has one counter, as it has one log."""
