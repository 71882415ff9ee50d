"""Planted bugs in clusters for tests: faults, resets, time, the plugin."""

from mutations import TEST_ONLY, Mutation

_FAULTS, _THINGS = "tests/testing/test_faults.py", "tests/testing/test_named_things.py"
_NODES, _NODE_FAULTS = "tests/testing/test_nodes.py", "tests/testing/test_node_faults.py"
_PLUGIN, _CONTROL = "tests/testing/test_plugin.py", "tests/testing/test_control.py"


def _bug(name: str, file: str, original: str, mutated: str, *tests: str) -> Mutation:
    path = file if file.startswith("broker/") else f"testing/{file}"
    return Mutation(name, path, original, mutated, tests, seeds=TEST_ONLY)


MUTATIONS = (
    _bug(
        "a request that fails takes effect all the same",
        "faults/faulty_handlers.py",
        "        if action.applied:\n            await self._handled()\n        return refused",
        "        await self._handled()\n        return refused",
        f"{_FAULTS}::test_a_lost_acknowledgement_makes_duplicates_but_of_idempotent_producers",
        f"{_FAULTS}::test_a_retriable_error_is_retried",
    ),
    _bug(
        "a fault of one partition fails the whole request",
        "faults/faulty_handlers.py",
        "        if selection.is_of_a_part:\n",
        "        if False:\n",
        f"{_FAULTS}::test_an_error_of_one_partition_is_for_it_alone",
    ),
    _bug(
        "the other partitions of a request that fails in part are not handled",
        "faults/faulty_handlers.py",
        "            if not named_things(others, names).partitions:\n",
        "            if True:\n",
        f"{_FAULTS}::test_an_error_of_one_partition_is_for_it_alone",
    ),
    _bug(
        "a fault hits the requests of the library itself",
        "faults/faulty_handlers.py",
        "        if client_id == HELPER or is_of_a_node(client_id):\n",
        "        if is_of_a_node(client_id):\n",
        f"{_FAULTS}::test_requests_tell_what_clients_have_sent",
    ),
    _bug(
        "a fault has no end",
        "faults/fault.py",
        "self.is_removed or (self.limits.times is not None and self.hits >= self.limits.times)\n",
        "self.is_removed\n",
        f"{_FAULTS}::test_a_retriable_error_is_retried",
    ),
    _bug(
        "requests that pass first are not counted",
        "faults/fault.py",
        "            if self._met <= limits.after or (self._met - limits.after) % limits.every:\n",
        "            if self._met % limits.every:\n",
        f"{_FAULTS}::test_after_every_times_and_probability",
    ),
    _bug(
        "a fault of a group hits all groups",
        "faults/fault.py",
        "        if self.group is not None and self.group not in things.groups:\n            return False\n",
        "",
        f"{_FAULTS}::test_a_group_fails_by_its_name",
    ),
    _bug(
        "a topic that is named by its id is not found",
        "faults/named_things.py",
        "    return names(topic_id) if topic_id != _NO_ID else None\n",
        "    return None\n",
        f"{_FAULTS}::test_a_fetch_fails_for_its_partitions",
        _THINGS,
    ),
    _bug(
        "topics in the answer to a Metadata for all of them do not fail",
        "faults/faulty_handlers.py",
        "                topic.error_code, topic.partitions = error.code, []\n",
        "                pass\n",
        f"{_FAULTS}::test_topics_fail_in_metadata_that_does_not_name_them",
    ),
    _bug(
        "clients that a test has left come back to the next one",
        "host/nodes.py",
        "            if left or is_disturbed or count",
        "            if count",
        f"{_PLUGIN}::test_clients_that_a_test_leaves_are_named_and_harm_no_other",
        f"{_PLUGIN}::test_a_client_that_is_about_to_connect_again_harms_no_other",
    ),
    _bug(
        "a client without a connection comes back to the next test",
        "host/nodes.py",
        "            if left or is_disturbed or count",
        "            if left or count",
        f"{_PLUGIN}::test_a_client_that_is_about_to_connect_again_harms_no_other",
    ),
    _bug(
        "faults outlive a reset",
        "host/nodes.py",
        "is_any, False\n            self.faults.clear()\n",
        "is_any, False\n",
        f"{_PLUGIN}::test_each_test_has_an_empty_kafka",
        f"{_CONTROL}::test_a_fault_from_its_beginning_to_its_end",
    ),
    _bug(
        "the clock stays wrong after a reset",
        "host/nodes.py",
        "            self.clock.reset()\n",
        "",
        f"{_CONTROL}::test_nodes_and_time",
    ),
    _bug(
        "event loops sleep on when the clock is advanced",
        "host/nodes.py",
        "        self.clock.advance(seconds)\n        self._wake()\n",
        "        self.clock.advance(seconds)\n",
        f"{_NODES}::test_a_node_that_sleeps_wakes_up_when_its_time_comes",
    ),
    _bug(
        "a killed node loses its data",
        "host/node_thread.py",
        "self._life.kept if self._life is not None and keeps_disk else None\n",
        "None\n",
        f"{_NODES}::test_a_killed_node_has_its_data_again",
    ),
    _bug(
        "a file in memory is sent by its descriptor, which it has not",
        "broker/connections/transport.py",
        "            if descriptor < 0:\n",
        "            if False:\n",
        f"{_NODES}::test_a_killed_node_has_its_data_again",
    ),
    _bug(
        "a link that is cut is cut in one direction only",
        "host/node_faults.py",
        "        if not one_way:\n",
        "        if False:\n",
        f"{_NODE_FAULTS}::test_one_link_of_several_can_be_cut",
    ),
    _bug(
        "clients reach an isolated node",
        "host/node_faults.py",
        "        if from_ is None:\n            thread.refuse_clients()\n",
        "",
        f"{_NODE_FAULTS}::test_an_isolated_leader_is_replaced",
    ),
    _bug(
        "connections that are open survive the cut of their link",
        "host/links.py",
        "        for close in closers:\n            close()\n",
        "",
        f"{_NODE_FAULTS}::test_an_isolated_leader_is_replaced",
    ),
)
