"""Bugs in authorization: what an ACL means, and who is asked for which operation."""

from mutations import TEST_ONLY, Mutation

_STANDARD = "controller/security/standard_authorizer.py"
_DENIED = "tests/compatibility/guarded/test_denied_things.py::test_each_client_shows_what_it_shows_of_kafka"
_ADDRESSES = "tests/controller/quorum/test_listening_sockets.py"
_TESTS = ("tests/controller/security/test_standard_authorizer.py",)

MUTATIONS = (
    Mutation(
        "a controller looks at the id of a broker before it authorizes the client",
        "controller/decisions/forwarding_rules.py",
        "        elif answer.resource_type == ResourceType.BROKER and not on_cluster(\n",
        "        elif answer.resource_type == ResourceType.CLIENT_METRICS and not on_cluster(\n",
        ("tests/controller/decisions/test_forwarding_rules.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "refused and unknown partitions of a Fetch are answered before those that are read",
        "broker/apis/fetch.py",
        "    answers.partitions += answers.unread\n",
        "    answers.partitions[:0] = answers.unread\n",
        ("tests/conversations/test_conversations.py::test_the_responses_are_those_of_kafka"
         "[own/broker_authorization/fetch-refused-and-unknown-come-last]",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a refusal of DescribeUserScramCredentials names the users",
        "broker/connections/refusals.py",
        "        return [_with_error(fresh(field.struct), error) for _ in elements]\n",
        "        return [_element(field.struct, declared.values(), one, version, error) for one in elements]\n",
        ("tests/conversations/test_conversations.py::test_the_responses_are_those_of_kafka"
         "[own/broker_authorization/refused-requests-repeat-what-was-asked]",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "clients see the groups of others",
        "broker/apis/list_groups.py",
        "        if access.allows(AclOperation.DESCRIBE, AclResourceType.GROUP, group.group_id, log_denied=False):\n",
        "        if group.group_id:\n",
        (f"{_DENIED}[minikafka-minikafka]",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "whoever may write to some topic may use any transactional id",
        "broker/apis/init_producer_id.py",
        "        return None if allowed else ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED\n",
        "        return None if allowed else _refusal(InitProducerIdRequest(transactional_id=None), access)\n",
        ("tests/broker/apis/test_authorization.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a decision is remembered although an ACL was deleted",
        _STANDARD,
        "                    self._index.remove(Acl(*record.acl))\n                    self._known.clear()",
        "                    self._index.remove(Acl(*record.acl))",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a denial of READ denies DESCRIBE as well",
        _STANDARD,
        "if acl.operation in (operation, AclOperation.ALL):",
        "if acl.operation in GRANTING[operation]:",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "everybody may do everything until the ACLs are loaded",
        _STANDARD,
        "            return NOT_LOADED\n",
        "            return self._without_acls\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "who may not describe a topic learns of its name whether it exists, when deleting it",
        "controller/decisions/delete_topics.py",
        "        if not may(AclOperation.DESCRIBE, name):",
        "        if topic is not None and not may(AclOperation.DESCRIBE, name):",
        ("tests/broker/apis/test_authorization.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "who may not create a topic learns whether it exists",
        "controller/decisions/create_topics.py",
        "topics, allowed, strict=True) if not may]",
        "topics, allowed, strict=True) if not may and topic.name.startswith('t')]",
        ("tests/broker/apis/test_authorization.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a filter of MATCH finds no wildcard",
        "controller/decisions/acls.py",
        "    return acl.resource_name == EVERY_RESOURCE\n",
        "    return False\n",
        ("tests/conversations/test_conversations.py::test_the_responses_are_those_of_kafka"
         "[own/security_acls/the-filter-match]",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "every controller listener is opened before the ACLs are loaded",
        "broker/node/controller_listener.py",
        '        return early is None or name in map(str.upper, self._config.items("early.start.listeners"))\n',
        "        return True\n",
        ("tests/broker/node/test_early_listeners.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "whoever reaches the controller listener is taken for a node",
        "controller/quorum/peers.py",
        "            if not admitted():\n",
        "            if False:\n",
        (
            "tests/controller/quorum/test_peers.py::"
            "test_who_is_not_admitted_as_a_node_is_refused_before_anything_is_said_and_logged",
        ),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a node without a certificate needs no right to act as one",
        "broker/security/between_nodes.py",
        "        return lambda: access.allows(AclOperation.CLUSTER_ACTION, AclResourceType.CLUSTER, CLUSTER_NAME)\n",
        "        return lambda: True\n",
        ("tests/broker/security/test_admission_of_nodes.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a node that loses its right goes on as one until its connection ends",
        "controller/quorum/node_logins.py",
        "        if not admitted():\n",
        "        if False:\n",
        (
            "tests/controller/quorum/test_peers.py::"
            "test_a_node_that_loses_its_right_is_disconnected_at_its_next_request",
        ),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "every denial writes a line, so that one request of many names stops the node",
        "controller/security/decision_log.py",
        "        if self._denials.admits():\n",
        "        if True:\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "who may not alter the cluster learns the addresses of the controllers",
        "broker/apis/at_controllers.py",
        "    check_cluster(context, AclOperation.ALTER)\n",
        "",
        ("tests/broker/apis/test_at_controllers.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "others wait until all names of a request are decided on",
        "broker/apis/authorization.py",
        "            await pause(name)\n",
        "",
        ("tests/broker/apis/test_denied_names.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "groups that a client may not read are decided on without a pause",
        "broker/apis/offset_fetch.py",
        "            await pause(asked.group_id)\n",
        "",
        ("tests/broker/apis/test_denied_names.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker that is ready refuses everything while records are on their way to it",
        "controller/security/standard_authorizer.py",
        "        target = target or committed_offset()\n",
        "        target = committed_offset()\n",
        _TESTS,
        seeds=14,
    ),
    Mutation(
        "what is committed when a node starts is first noted at a decision, when more is on its way",
        "controller/security/standard_authorizer.py",
        "        self.has_loaded()\n        for record in records:\n",
        "        for record in records:\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "ACLs count as loaded before it is known what is committed",
        "controller/security/standard_authorizer.py",
        "        return 0 < target <= applied_offset()\n",
        "        return target <= applied_offset()\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker writes the address of an IPv6 client as no ACL of Kafka has it",
        "broker/connections/transport.py",
        "self.peer_host, self.peer_port = host_of(peer), int(peer[1])",
        "self.peer_host, self.peer_port = str(peer[0]), int(peer[1])",
        (_ADDRESSES,),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a controller writes the address of an IPv6 client as no ACL of Kafka has it",
        "controller/quorum/peer_network.py",
        "return host_of(stream.socket.getpeername())",
        "return str(stream.socket.getpeername()[0])",
        (_ADDRESSES,),
        seeds=TEST_ONLY,
    ),
)
