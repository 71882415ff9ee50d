"""Bugs in replication: who is in sync, how far is committed, where a follower cuts its log."""

from mutations import Mutation

_TESTS = (
    "tests/broker/replication/test_published_bugs.py",
    "tests/broker/replication",
    "tests/broker/partitions/test_follower_progress.py",
)
_THROTTLES = ("tests/broker/replication/test_replication_throttle.py",)
_COPYING = "broker/replication/follower_fetch_state.py"
_FOLLOWING = "broker/partitions/follower_log.py"
_PARTITION = "broker/partitions/partition.py"
_REPLICA = "broker/partitions/replica.py"
_REPLICAS = "broker/partitions/follower_progress.py"

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
        "a new leader calls committed what it has",
        _PARTITION,
        "            self.log.epochs.assign(state.leader_epoch, end)",
        "            self.high_watermark = end\n            self.log.epochs.assign(state.leader_epoch, end)",
        _TESTS,
    ),
    Mutation(
        "the high watermark without the maximal set",
        _REPLICAS,
        "self.isr if self.pending is None else self.maximal_isr",
        "self.isr",
        _TESTS,
    ),
    Mutation(
        "a shrink counts before the controller has agreed",
        _REPLICAS,
        "return (*self.isr, *(node_id for node_id in self.pending.node_ids if node_id not in self.isr))",
        "return self.pending.node_ids",
        _TESTS,
    ),
    Mutation(
        "the last replica commits alone, whatever the minimum",
        _REPLICAS,
        "if len(self.isr) < self.min_isr(min_isr):",
        "if not self.isr:",
        _TESTS,
    ),
    Mutation(
        "a follower cuts its log to its high watermark",
        _PARTITION,
        "        self._wake_all()\n        self._deletions.wake()\n        return True",
        "        if not self.is_leader:\n            self.log.truncate_to(self.high_watermark)\n        return True",
        _TESTS,
    ),
    Mutation(
        "whoever knows an older epoch is served",
        _REPLICA,
        "if current_leader_epoch < self.leader_epoch:",
        "if current_leader_epoch < 0:",
        _TESTS,
    ),
    Mutation(
        "consumers see what is not committed",
        _REPLICA,
        "limit = self.visible_end(isolation)",
        "limit = self.log.end_offset",
        _TESTS,
    ),
    Mutation(
        "a fetch that parted says what a follower has",
        _PARTITION,
        "if first_read and found.diverging is None:",
        "if first_read:",
        _TESTS,
    ),
    Mutation(
        "who has the high watermark is in sync, wherever the epoch began",
        _REPLICAS,
        "follower.end_offset >= max(high_watermark, self.epoch_start_offset)",
        "follower.end_offset >= high_watermark",
        _TESTS,
    ),
    Mutation(
        "who has rebooted since its fetch comes in",
        _REPLICAS,
        "return follower.broker_epoch == broker.epoch",
        "return follower.broker_epoch is not None",
        _TESTS,
    ),
    Mutation(
        "an epoch is on record only with its first batch",
        _PARTITION,
        "            self.log.epochs.assign(state.leader_epoch, end)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "the leader's word on where to cut, whatever the own epochs",
        _FOLLOWING,
        "    return min(own_end, end_offset, log.end_offset)",
        "    return min(end_offset, log.end_offset)",
        _TESTS,
    ),
    Mutation(
        "an answer of an older epoch is taken for one of now",
        _COPYING,
        "if state is not None and sent is not None and sent.leader_epoch == state.leader_epoch:",
        "if state is not None and sent is not None:",
        _TESTS,
    ),
    Mutation(
        "checksums are not looked at",
        _FOLLOWING,
        "    batch.check_crc()\n",
        "",
        _TESTS,
    ),
    Mutation(
        "what was written in an earlier leadership_term is acknowledged in a later one",
        _PARTITION,
        "        if self._leadership_term != leadership_term:\n            raise NotLeaderOrFollowerError("
        "f\"leadership of {self} ended before offset",
        "        if False:\n            raise NotLeaderOrFollowerError(f\"leadership of {self} ended before offset",
        _TESTS,
    ),
    Mutation(
        "the marks of an answer that parted count",
        "broker/apis/fetch.py",
        "not answer.error_code and answer.diverging_epoch.epoch < 0",
        "not answer.error_code",
        _TESTS,
    ),
    Mutation(
        "who caught up while another was let in is forgotten",
        _PARTITION,
        "if self.leader_state.any_may_enter_isr(self.high_watermark):",
        "if False:",
        ("tests/broker/replication/test_isr_changes.py",),
    ),
    Mutation(
        "a throttle keeps those waiting who are in sync",
        "broker/apis/fetch.py",
        "return not in_sync and throttle.covers(partition.topic_partition)",
        "return throttle.covers(partition.topic_partition)",
        _THROTTLES,
    ),
    Mutation(
        "a throttled follower takes no notice of what it took",
        _COPYING,
        "        self._throttle.record(partition.topic_partition, len(records), now_ms)\n",
        "",
        _THROTTLES,
    ),
    Mutation(
        "a throttle holds what it once held",
        _COPYING,
        "state.behind = answer.high_watermark > partition.log.end_offset",
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
