"""`FAILURES`: how many requests and tasks of this process met a bug of minikafka, by what they were; for the metrics.

An unexpected exception ends what it happened in and nothing else: a request is answered UNKNOWN_SERVER_ERROR, a
connection is closed, a deadline comes again. Whoever catches it logs it with its trace, and counts it here.
"""

from collections import Counter

__all__ = ["FAILURES"]

FAILURES: Counter[str] = Counter({"connection": 0, "deadline": 0, "decision": 0, "metadata": 0, "peer": 0, "raft": 0})
"""The name of the API, or `decision`, `deadline`, `connection`, `metadata`, `peer`, `raft`. The process
has one, like its log."""
