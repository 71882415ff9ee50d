"""Planted bugs in client quotas: precedence, what counts, throttle times."""

from mutations import TEST_ONLY, Mutation

_RATES = "controller/quotas/rates.py"
_LIMITS = "controller/quotas/limits.py"
_METER = "broker/quotas/request_meter.py"
_TESTS = ("tests/controller/quotas", "tests/broker/quotas")

_CONNECTIONS = "broker/quotas/connection_rates.py"

MUTATIONS = (
    Mutation(
        "an infinite throttle time ends the node",
        _RATES,
        "    return int(min(throttle_ms + 0.5, THROTTLE_MS_MAX))\n",
        "    return min(int(throttle_ms + 0.5), THROTTLE_MS_MAX)\n",
        ("tests/broker/quotas/test_extreme_quotas.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a quota that is not a number limits",
        "controller/quotas/changes.py",
        "return math.inf if value is not None and math.isnan(value) else value",
        "return value",
        ("tests/controller/quotas/test_changes.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "clients use up the connections of the brokers",
        "broker/node/runtime_settings.py",
        "return self._descriptors if listener == self._protected else self.connections_max",
        "return self.connections_max",
        ("tests/broker/node/test_runtime_settings.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the connections of a listener that have ended count in its limit",
        "broker/connections/server.py",
        "for subject in ((\"host\", host), (\"listener\", info.listener)):\n",
        "for subject in ((\"host\", host),):\n",
        ("tests/broker/connections/test_server.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a request is refused by the partitions that it would create, and not by those before it",
        "controller/quotas/mutations.py",
        "        self._bucket.take(partitions, self._limit, self._now_ms)\n",
        "        self._bucket.take(partitions, self._limit, self._now_ms)\n"
        "        if self._is_strict and self._bucket.below_for_ms(self._limit, self._now_ms):\n"
        "            raise ThrottlingQuotaExceededError\n",
        _TESTS,
    ),
    Mutation(
        "a refused creation counts",
        "controller/quotas/mutations.py",
        "            self.throttle_ms = exceeded_ms\n",
        "            self.throttle_ms = exceeded_ms\n"
        "            self._bucket.take(partitions, self._limit, self._now_ms)\n",
        _TESTS,
    ),
    Mutation(
        "a forwarded request loses the client id",
        "controller/active/forwarded_requests.py",
        "access.principal.name, access.host, access.client_id]",
        "access.principal.name, access.host, \"\"]",
        ("tests/controller/active/test_forwarded_requests.py",),
    ),
    Mutation(
        "connections that an address may not open count against it",
        _CONNECTIONS,
        "        if refused_ms:\n            rate.record(-1, now_ms)\n",
        "",
        _TESTS,
    ),
    Mutation(
        "the addresses that share a default quota share one rate",
        _CONNECTIONS,
        'rate = self._of_hosts.sensor(("", host), now_ms)',
        'rate = self._of_hosts.sensor(("", host if host in self._host_max else ""), now_ms)',
        _TESTS,
    ),
    Mutation(
        "a quota of a default client id holds before that of the default user and the client id",
        _LIMITS,
        "users: tuple[_Name, ...] = (user, None) if user else (\"\",)",
        "users: tuple[_Name, ...] = (None, user) if user else (\"\",)",
        _TESTS,
    ),
    Mutation(
        "client ids share the quota of a default client id",
        _LIMITS,
        'return (user, "") if (None, "") in limits else ("", client_id)',
        'return (user, "") if (None, "") in limits else ("", "")',
        _TESTS,
    ),
    Mutation(
        "a first value counts over the time since it was recorded",
        _RATES,
        "return max(elapsed_ms + max(lacking, 0) * samples.size_ms, samples.size_ms)",
        "return max(elapsed_ms, samples.size_ms)",
        _TESTS,
    ),
    Mutation(
        "the bytes of a fetch that is answered empty stay counted",
        _METER,
        "if bytes_ms or request_ms:",
        "if request_ms:",
        _TESTS,
    ),
    Mutation(
        "acks=0 hides the bytes of a Produce from the quota",
        _METER,
        "if isinstance(request, ProduceRequest) and self._quotas.produce.limits.exist:",
        "if isinstance(request, ProduceRequest) and response is not None and self._quotas.produce.limits.exist:",
        _TESTS,
    ),
    Mutation(
        "the followers of a throttled user are throttled",
        _METER,
        "return max(request.replica_id, request.replica_state.replica_id) >= 0",
        "return request.replica_id >= 0",
        _TESTS,
    ),
    Mutation(
        "the time for which a request waits counts",
        "storage/waits.py",
        "            waits()\n",
        "",
        ("tests/broker/connections/test_dispatcher.py", "tests/storage/test_waits.py"),
    ),
    Mutation(
        "the time of a handler counts until its first wait only",
        "storage/waits.py",
        "                resumes()\n                wait = steps.send(value)\n",
        "                wait = steps.send(value)\n",
        ("tests/broker/connections/test_dispatcher.py",),
    ),
    Mutation(
        "the time of decoding a large request does not count",
        "broker/connections/dispatcher.py",
        "connection, self._clock() - took_s)",
        "connection, self._clock())",
        ("tests/broker/connections/test_dispatcher.py",),
    ),
    Mutation(
        "who claims to be a follower is not throttled",
        "broker/quotas/request_meter.py",
        " >= 0 and access.acts_as_node",
        " >= 0",
        ("tests/broker/quotas/test_client_quotas.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "WriteTxnMarkers that are refused are not throttled",
        "broker/quotas/request_meter.py",
        "    return alters or access.acts_as_node\n",
        "    return True\n",
        ("tests/broker/quotas/test_client_quotas.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a stranger's fetches take the memory of followers",
        "broker/apis/fetch.py",
        "        context.connection.follows = context.access.acts_as_node\n",
        "        context.connection.follows = True\n",
        ("tests/broker/apis/test_authorization.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "topics that Metadata creates do not count for controller_mutation_rate",
        "broker/apis/metadata.py",
        "                request, CREATION_VERSION, context.access\n",
        "                request, CREATION_VERSION\n",
        ("tests/broker/apis/test_authorization.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a quota of an address does not hold for one in an address of IPv6, or written in full",
        _CONNECTIONS,
        "        host = str(_ip(host) or host)\n",
        "",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the controller mutations of a user count for nobody",
        "controller/quotas/mutations.py",
        "        sharers = self._limits.sharers(user, client_id)\n",
        "        sharers = self._limits.sharers(\"\", client_id)\n",
        _TESTS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a broker that gets a snapshot keeps the quotas that were removed meanwhile",
        "controller/quorum/metadata_applier.py",
        "    return [*topics, *configs, *acls, *quotas]\n",
        "    return [*topics, *configs, *acls]\n",
        ("tests/controller/quorum/test_metadata_applier.py",),
        seeds=TEST_ONLY,
    ),
)
