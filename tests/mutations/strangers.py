"""Planted bugs in what somebody without a login meets, and in how commands find the cluster and its login."""

from mutations import TEST_ONLY, Mutation

_CHOICE = "tests/cli/arguments/test_cluster_choice.py"
_CONTROLLERS = "tests/cli/commands/test_bootstrap_controller.py"

MUTATIONS = (
    Mutation(
        "a node with TLS and no login waits for a second only",
        "controller/quorum/peers.py",
        " and not self.security.has_tls:",
        ":",
        ("tests/controller/quorum/test_peers.py::test_a_node_with_tls_waits_longer_behind_strangers",),
    ),
    Mutation(
        "refusals of strangers with ever new reasons are all logged",
        "controller/quorum/handshake_log.py",
        "not in self._logged_refusals and self._refusals.admits():",
        "not in self._logged_refusals:",
        ("tests/controller/quorum/test_peers.py::test_lines_about_what_strangers_send_are_bounded",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "each malformed frame of a stranger is logged",
        "controller/quorum/handshake_log.py",
        "        if self._malformed.admits():\n",
        "        if True:\n",
        ("tests/controller/quorum/test_peers.py::test_lines_about_what_strangers_send_are_bounded",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "malformed requests of raft that differ are all logged",
        "controller/quorum/raft_events.py",
        " and self._malformed_lines.admits():",
        ":",
        ("tests/controller/quorum/test_raft_events.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "each refused scrape is logged",
        "broker/metrics/refused_scrapes.py",
        "        if self._lines.admits(client):\n",
        "        if client:\n",
        ("tests/broker/metrics/test_http_server.py::test_lines_about_who_is_refused_are_bounded",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "connections that are in the way are all logged",
        "broker/connections/idle_connections.py",
        "                connection.log_closed(reason)\n",
        '                log.info("connection closed", client=connection.info.client_host, reason=reason)\n',
        ("tests/test_lines_of_strangers.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a context without a file gets the login of the environment",
        "cli/arguments/cluster_choice.py",
        "cluster.command_config, _left_out(name, cluster, file.value))",
        "file.value, _left_out(name, cluster, file.value))",
        (_CHOICE,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "addresses of the environment come before those of a file that is typed",
        "cli/arguments/cluster_choice.py",
        "    first = next(iter(sorted(given, key=lambda option: not option.is_typed)), None)\n",
        "    first = next(iter(given), None)\n",
        (_CHOICE,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a login is sent to other addresses than its file names without a word",
        "cli/arguments/cluster_choice.py",
        "    if file.is_typed or servers_of_file is None:\n",
        "    if file.value:\n",
        (_CHOICE,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "what changes something goes to any controller",
        "client/connections/cluster_client.py",
        "            node_id = self.metadata.controller_id\n",
        "            node_id = min(self.metadata.brokers)\n",
        (_CONTROLLERS,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a client of controllers asks them for brokers",
        "client/connections/endpoints.py",
        "return DescribeClusterRequest(endpoint_type=CONTROLLERS)",
        "return DescribeClusterRequest(endpoint_type=BROKERS)",
        (_CONTROLLERS,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "of brokers and controllers that are both given the controllers are asked",
        "cli/arguments/options.py",
        "        if servers.is_typed:\n",
        "        if False:\n",
        (f"{_CONTROLLERS}::test_either_brokers_or_controllers_are_asked",),
        seeds=TEST_ONLY,
    ),
)
