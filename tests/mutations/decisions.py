"""Bugs in what the active controller decides: elections, in-sync replicas, registrations."""

from mutations import Mutation

_TESTS = ("tests/controller/decisions",)
_CHANGES = "controller/decisions/partition_changes.py"
_ALTER = "controller/decisions/alter_partition.py"
_HEARTBEAT = "controller/decisions/broker_heartbeat.py"
_REGISTRATION = "controller/decisions/broker_registration.py"

MUTATIONS = (
    Mutation(
        "a leader from outside the in-sync replicas",
        _CHANGES,
        "if node in candidates and rules.may_lead(node)",
        "if rules.may_lead(node)",
        _TESTS,
    ),
    Mutation(
        "a leader that is fenced",
        _CHANGES,
        "if node in candidates and rules.may_lead(node)",
        "if node in candidates",
        _TESTS,
    ),
    Mutation(
        "a fenced broker stays in sync",
        _CHANGES,
        "wanted = state if leaves is None else replace(state, isr=without(state.isr, leaves))",
        "wanted = state",
        _TESTS,
    ),
    Mutation(
        "whoever crashed stays eligible",
        _CHANGES,
        "and replica not in target.isr and replica != rules.crashed",
        "and replica not in target.isr",
        _TESTS,
    ),
    Mutation(
        "a replica stays eligible although others may commit without it now",
        "controller/decisions/eligible_leader_replicas.py",
        "yield PartitionChange(topic.id, index, elr=())",
        "yield PartitionChange(topic.id, index)",
        _TESTS,
    ),
    Mutation(
        "unclean elections everywhere",
        _CHANGES,
        "    if rules.election is Election.UNCLEAN:\n",
        "    if rules.election:\n",
        _TESTS,
    ),
    Mutation(
        "the last leader comes before those that are eligible",
        _CHANGES,
        "candidates = () if target.isr or target.elr else target.last_known_elr",
        "candidates = target.last_known_elr",
        _TESTS,
    ),
    Mutation(
        "replicas that go are not fenced by a new leader epoch",
        _CHANGES,
        "leader=target.leader if moved or lost else None",
        "leader=target.leader if moved else None",
        _TESTS,
    ),
    Mutation(
        "a reassignment ends before all that are added are in sync",
        _CHANGES,
        "if not staying or any(replica not in staying for replica in wanted.adding_replicas):",
        "if not staying:",
        _TESTS,
    ),
    Mutation(
        "an old broker epoch is accepted in a heartbeat",
        _HEARTBEAT,
        "if broker is None or broker.epoch != request.broker_epoch:",
        "if broker is None:",
        _TESTS,
    ),
    Mutation(
        "a broker serves before it knows of its registration",
        _HEARTBEAT,
        "if request.want_fence or not reply.is_caught_up:",
        "if request.want_fence:",
        _TESTS,
    ),
    Mutation(
        "a broker goes before the others know who leads",
        _HEARTBEAT,
        "if not context.sessions.others_caught_up(node_id, others):",
        "if not node_id:",
        _TESTS,
    ),
    Mutation(
        "an old partition epoch is accepted",
        _ALTER,
        "if asked.partition_epoch < state.partition_epoch and not _is_done(state, asked):",
        "if asked.partition_epoch < -9:",
        _TESTS,
    ),
    Mutation(
        "an old leader epoch is accepted",
        _ALTER,
        "if asked.leader_epoch < state.leader_epoch:",
        "if asked.leader_epoch < -9:",
        _TESTS,
    ),
    Mutation(
        "another incarnation than the one that caught up comes into sync",
        _ALTER,
        "return asked.broker_epoch in (ANY_EPOCH, broker.epoch)",
        "return True",
        _TESTS,
    ),
    Mutation(
        "a fenced broker comes into sync",
        _ALTER,
        "if broker is None or broker.fenced or broker.in_controlled_shutdown:",
        "if broker is None:",
        _TESTS,
    ),
    Mutation(
        "two processes with one id",
        _REGISTRATION,
        "return alive and not known.in_controlled_shutdown",
        "return False",
        _TESTS,
    ),
    Mutation(
        "every shutdown is taken for a clean one",
        _REGISTRATION,
        "crashed = known is None or known.epoch != request.previous_broker_epoch",
        "crashed = known is None",
        _TESTS,
    ),
    Mutation(
        "a forgotten broker's epoch is given again",
        _REGISTRATION,
        "epoch = image.last_broker_epoch + 1",
        "epoch = 1 + max((one.epoch for one in image.brokers.values()), default=-1)",
        _TESTS,
    ),
)
