"""Bugs in what the active controller decides: elections, in-sync replicas, registrations."""

from mutations import STORY_ONLY, TEST_ONLY, Mutation

_TESTS = ("tests/controller/decisions",)
_STORIES = "tests/simulation/test_decision_stories.py"
_PUBLISHED = "tests/simulation/test_published_bugs.py"
_LAST_STANDING = f"{_PUBLISHED}::test_kip_966_the_last_replica_standing_loses_its_unsynced_records"
_REBOOT = f"{_PUBLISHED}::test_kafka_14617_a_replica_reboots_between_its_fetch_and_the_change_of_the_isr"
_CHANGES = "controller/decisions/partition_changes.py"
_ELECTION = "controller/decisions/leader_election.py"
_ELIGIBLE = "controller/decisions/eligible_leader_replicas.py"
_COMPLETION = "controller/decisions/reassignment_completion.py"
_ALTER = "controller/decisions/alter_partition.py"
_HEARTBEAT = "controller/decisions/broker_heartbeat.py"
_REGISTRATION = "controller/decisions/broker_registration.py"

_FORWARDING = "controller/decisions/forwarding_rules.py"
_BROKER_RULES = "controller/decisions/broker_config_rules.py"
_CONFIGS = "controller/decisions/config_changes.py"
_FEATURES = "controller/decisions/update_features.py"

MUTATIONS = (
    Mutation(
        "a replica outside the ISR is elected",
        _ELECTION,
        "if node in candidates and rules.may_lead_with(node, target)",
        "if rules.may_lead_with(node, target)",
        _TESTS,
        seeds=1,
    ),
    Mutation(
        "a fenced broker is elected",
        _ELECTION,
        "if node in candidates and rules.may_lead_with(node, target)",
        "if node in candidates",
        _TESTS,
        seeds=1,
    ),
    Mutation(
        "a fenced broker stays in the ISR",
        _CHANGES,
        "target = state if leaves_isr is None else replace(state, isr=without(state.isr, leaves_isr))",
        "target = state",
        _TESTS,
        seeds=1,
    ),
    Mutation(
        "a broker with an unclean shutdown stays an eligible leader replica",
        _ELIGIBLE,
        "and replica not in target.isr and replica != rules.unclean_shutdown",
        "and replica not in target.isr",
        (_LAST_STANDING,),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "lowering min.insync.replicas does not clear the eligible leader replicas",
        _ELIGIBLE,
        "yield PartitionChange(topic.id, index, elr=())",
        "yield PartitionChange(topic.id, index)",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "every election may be unclean",
        _ELECTION,
        "    if rules.election is Election.UNCLEAN:\n",
        "    if rules.election:\n",
        _TESTS,
        seeds=1,
    ),
    Mutation(
        "the last known leader is elected although the ISR or the eligible leader replicas are not empty",
        _ELECTION,
        "candidates = () if target.isr or target.elr else target.last_known_elr",
        "candidates = target.last_known_elr",
        (_LAST_STANDING,),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "the removal of a replica does not increment the leader epoch",
        _CHANGES,
        "leader=target.leader if moved or removed else None",
        "leader=target.leader if moved else None",
        ("tests/simulation/test_node_stories.py::test_a_follower_notices_a_new_epoch_of_the_same_leader",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a reassignment is completed before all added replicas are in sync",
        _COMPLETION,
        "if not staying or any(replica not in staying for replica in target.adding_replicas):",
        "if not staying:",
        (f"{_STORIES}::test_a_reassignment_waits_for_the_replica_that_it_adds",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a heartbeat with an old broker epoch is accepted",
        _HEARTBEAT,
        "if broker is None or broker.epoch != request.broker_epoch:",
        "if broker is None:",
        (f"{_STORIES}::test_a_late_heartbeat_of_an_earlier_process_stops_nothing",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a broker is unfenced before it has applied its registration",
        _HEARTBEAT,
        "if request.want_fence or not reply.is_caught_up:",
        "if request.want_fence:",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker that asks to be fenced stays in the ISRs that do not fit into the decision",
        _HEARTBEAT,
        "    if more:\n        return Decision(records[1:], reply)\n",
        "",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker shuts down before the other brokers have applied the new leaders",
        _HEARTBEAT,
        "if not context.sessions.others_caught_up(node_id, others):",
        "if not node_id:",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an AlterPartition with an old partition epoch is accepted",
        _ALTER,
        "if requested.partition_epoch < state.partition_epoch and not _is_applied(state, requested):",
        "if requested.partition_epoch < -9:",
        (f"{_STORIES}::test_a_late_proposal_does_not_undo_what_has_changed_since",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "an AlterPartition with an old leader epoch is accepted",
        _ALTER,
        "if requested.leader_epoch < state.leader_epoch:",
        "if requested.leader_epoch < -9:",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker that restarted since it caught up joins the ISR",
        _ALTER,
        "return requested.broker_epoch in (ANY_EPOCH, broker.epoch)",
        "return True",
        (_REBOOT,),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a fenced broker joins the ISR",
        _ALTER,
        "if broker is None or broker.fenced or broker.in_controlled_shutdown:",
        "if broker is None:",
        (f"{_STORIES}::test_a_follower_that_has_vanished_since_it_caught_up_is_not_in_sync",),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "two live processes register with one node id",
        _REGISTRATION,
        "return context.sessions.is_live(known.node_id, known.epoch, context.now_ms)",
        "return False",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "decisions that the full disk did not take stay in the image by which the next ones are made",
        "controller/active/leadership_term.py",
        "        self._decided = copy_image(self._image)\n",
        "",
        ("tests/controller/test_lone_controller.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the active controller fences the broker of its own process, which stood still",
        "controller/active/active_controller.py",
        " if (one, self._image.brokers[one].epoch) != own]",
        "]",
        ("tests/controller/test_lone_controller.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the next process of the controller's own node waits for the session of the last one",
        _REGISTRATION,
        "    if known.node_id == context.static.node_id or known.in_controlled_shutdown:\n",
        "    if known.in_controlled_shutdown:\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker is unfenced at once although other brokers are registered",
        _REGISTRATION,
        "set(context.controllers) == {node_id} and image.brokers.keys() <= {node_id}",
        "set(context.controllers) == {node_id}",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the only broker leads on in its old leader epoch after an unclean stop",
        "controller/decisions/broker_fencing.py",
        "replace(state, leader=NO_LEADER) if is_usable and unclean_shutdown else state",
        "state",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the only broker leads what is in a directory that it cannot use",
        "controller/decisions/broker_fencing.py",
        "        is_usable = is_online(state.directory(node_id), broker.log_dirs)\n",
        "        is_usable = True\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a registration after an unclean shutdown is treated as clean",
        _REGISTRATION,
        "unclean_shutdown = known is None or not _continues(image, known, request.previous_broker_epoch)",
        "unclean_shutdown = known is None",
        (_LAST_STANDING,),
        seeds=STORY_ONLY,
    ),
    Mutation(
        "a clean shutdown before the epoch was learned counts as an unclean one",
        _REGISTRATION,
        "return image.served_epochs.get(known.node_id, known.epoch) <= previous_epoch <= known.epoch",
        "return previous_epoch == known.epoch",
        _TESTS,
    ),
    Mutation(
        "a marker of an earlier process counts after a later one was unfenced",
        "controller/metadata/image.py",
        "        if record.fenced is False:\n            self.served_epochs.pop(record.node_id, None)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "decisions that are not committed yet change which epochs brokers served in",
        "controller/active/leadership_term.py",
        "        served_epochs=dict(image.served_epochs),\n",
        "",
        ("tests/controller/active/test_leadership_term.py::test_a_copied_image_shares_no_dictionary",),
    ),
    Mutation(
        "the epoch of an unregistered broker is assigned again",
        _REGISTRATION,
        "epoch = image.last_broker_epoch + 1",
        "epoch = 1 + max((one.epoch for one in image.brokers.values()), default=-1)",
        _TESTS,
    ),
    Mutation(
        "a broker forwards values that do not fit its own",
        _FORWARDING,
        "    if resource.resource_type != ResourceType.BROKER:\n        return False\n",
        "    return False\n",
        _TESTS,
    ),
    Mutation(
        "configs of a controller that is no broker are refused",
        _CONFIGS,
        "if node_id not in image.brokers and node_id not in context.controllers:",
        "if node_id not in image.brokers:",
        _TESTS,
    ),
    Mutation(
        "the first entry of a config counts at a controller",
        _FORWARDING,
        "last = {config.name: config for config in configs}.values()",
        "last = {config.name: config for config in reversed(configs)}.values()",
        _TESTS,
    ),
    Mutation(
        "the values of a broker do not count before those of all brokers",
        _BROKER_RULES,
        "own = {} if per_broker else settings.image.config(ResourceType.BROKER, str(settings.static.node_id))",
        "own: dict[str, str] = {}",
        _TESTS,
    ),
    Mutation(
        "metadata.version goes back past a level that added metadata",
        _FEATURES,
        "any(level < change <= current for change in METADATA_CHANGES)",
        "any(level < change < current for change in METADATA_CHANGES)",
        _TESTS,
    ),
    Mutation(
        "a level of a feature that is not supported is taken from the log",
        "controller/metadata/image.py",
        "if unsupported := unsupported_level(record.name, record.level):",
        "if (unsupported := unsupported_level(record.name, record.level)) and not record.name:",
        _TESTS,
    ),
    Mutation(
        "the first bytes of a client's connection are lost",
        "controller/quorum/peers.py",
        "PushedBackStream(stream, start)",
        'PushedBackStream(stream, b"")',
        ("tests/controller/quorum/test_peers.py",),
    ),
    Mutation(
        "a broker that is in contact again before it is fenced as a whole stays in the other ISRs",
        "controller/decisions/broker_fencing.py",
        "(not broker.fenced and context.sessions",
        "(context.sessions",
        ("tests/controller/decisions/test_broker_fencing.py",),
        seeds=TEST_ONLY,
    ),
)
