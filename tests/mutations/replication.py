"""Planted bugs in replication: ISR, high watermark, truncation by followers, throttles."""

from mutations import Mutation

_TESTS = (
    "tests/broker/replication/test_published_bugs.py",
    "tests/broker/replication",
    "tests/broker/partitions/test_follower_progress.py",
)
_THROTTLES = ("tests/broker/replication/test_replication_throttle.py",)
_FETCH_STATE = "broker/replication/follower_fetch_state.py"
_FOLLOWER_LOG = "broker/partitions/follower_log.py"
_PARTITION = "broker/partitions/partition.py"
_REPLICA = "broker/partitions/replica.py"
_LEADER_STATE = "broker/partitions/follower_progress.py"

MUTATIONS = (
    Mutation(
        "an acknowledgement before the in-sync replicas have it",
        _PARTITION,
        "if self.high_watermark < offset:",
        "if self.log.end_offset < offset:",
        _TESTS,
    ),
    Mutation(
        "the high watermark does not wait for the in-sync replicas",
        _PARTITION,
        "self._move_high_watermark(committable_offset, UNKNOWN_BYTES)",
        "self._move_high_watermark(end, UNKNOWN_BYTES)",
        _TESTS,
    ),
    Mutation(
        "a new leader sets the high watermark to its log end",
        _PARTITION,
        "            self.log.epochs.assign(state.leader_epoch, end)",
        "            self.high_watermark = end\n            self.log.epochs.assign(state.leader_epoch, end)",
        _TESTS,
    ),
    Mutation(
        "the high watermark ignores the maximal isr",
        _LEADER_STATE,
        "self.isr if self.pending is None else self.maximal_isr",
        "self.isr",
        _TESTS,
    ),
    Mutation(
        "a proposed isr shrink counts before it is committed",
        _LEADER_STATE,
        "return (*self.isr, *(node_id for node_id in self.pending.node_ids if node_id not in self.isr))",
        "return self.pending.node_ids",
        _TESTS,
    ),
    Mutation(
        "the last replica commits below min.insync.replicas",
        _LEADER_STATE,
        "if len(self.isr) < self.min_isr(min_isr):",
        "if not self.isr:",
        _TESTS,
    ),
    Mutation(
        "a follower truncates its log to its high watermark",
        _PARTITION,
        "        self._wake_all()\n        self._deletions.wake()\n        return True",
        "        if not self.is_leader:\n            self.log.truncate_to(self.high_watermark)\n        return True",
        _TESTS,
    ),
    Mutation(
        "requests with an older leader epoch are served",
        _REPLICA,
        "if current_leader_epoch < self.leader_epoch:",
        "if current_leader_epoch < 0:",
        _TESTS,
    ),
    Mutation(
        "consumers read uncommitted records",
        _REPLICA,
        "limit = self.visible_end(isolation)",
        "limit = self.log.end_offset",
        _TESTS,
    ),
    Mutation(
        "a diverging fetch counts as progress",
        _PARTITION,
        "if first_read and found.diverging is None:",
        "if first_read:",
        _TESTS,
    ),
    Mutation(
        "a follower enters the isr below the epoch start",
        _LEADER_STATE,
        "follower.end_offset >= max(high_watermark, self.epoch_start_offset)",
        "follower.end_offset >= high_watermark",
        _TESTS,
    ),
    Mutation(
        "a broker restarted since its fetch enters the isr",
        _LEADER_STATE,
        "return follower.broker_epoch == broker.epoch",
        "return follower.broker_epoch is not None",
        _TESTS,
    ),
    Mutation(
        "an epoch is recorded only with its first batch",
        _PARTITION,
        "            self.log.epochs.assign(state.leader_epoch, end)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "truncation ignores the follower's own epochs",
        _FOLLOWER_LOG,
        "    return min(own_end, end_offset, log.end_offset)",
        "    return min(end_offset, log.end_offset)",
        _TESTS,
    ),
    Mutation(
        "a response of an older leader epoch is applied",
        _FETCH_STATE,
        "if state is not None and sent is not None and sent.leader_epoch == state.leader_epoch:",
        "if state is not None and sent is not None:",
        _TESTS,
    ),
    Mutation(
        "checksums are not checked",
        _FOLLOWER_LOG,
        "    batch.check_crc()\n",
        "",
        _TESTS,
    ),
    Mutation(
        "records of an earlier leadership term are acknowledged in a later one",
        _PARTITION,
        "        if leadership_term is not None and self._leadership_term != leadership_term:\n"
        "            raise self._resigned_with(f\"leadership of {self} ended before offset",
        "        if False:\n            raise self._resigned_with(f\"leadership of {self} ended before offset",
        _TESTS,
    ),
    Mutation(
        "the watermarks of a diverging response count",
        "broker/apis/fetch_response.py",
        "not answer.error_code and answer.diverging_epoch.epoch < 0",
        "not answer.error_code",
        _TESTS,
    ),
    Mutation(
        "a follower that caught up during a proposal is not proposed",
        _PARTITION,
        "if self.leader_state.any_may_enter_isr(self.high_watermark):",
        "if False:",
        ("tests/broker/replication/test_isr_changes.py",),
    ),
    Mutation(
        "in-sync replicas are throttled",
        "broker/apis/fetch.py",
        "return not in_sync and throttle.covers(partition.topic_partition)",
        "return throttle.covers(partition.topic_partition)",
        _THROTTLES,
    ),
    Mutation(
        "a throttled follower does not count fetched bytes",
        _FETCH_STATE,
        "        self._throttle.record(partition.topic_partition, len(records), now_ms)\n",
        "",
        _THROTTLES,
    ),
    Mutation(
        "a caught-up partition stays throttled",
        _FETCH_STATE,
        "state.behind = state.lag > 0",
        "state.behind = True",
        _THROTTLES,
    ),
    Mutation(
        "replicas of other nodes are throttled too",
        "broker/replication/replication_throttle.py",
        "for partition, node in pairs if int(node) == node_id",
        "for partition, node in pairs",
        _THROTTLES,
    ),
)
