"""Planted bugs in a consumer's commits and positions, of which those of one partition are no other's."""

from mutations import TEST_ONLY, Mutation

_COMMITS = "client/consumer/offset_commits.py"
_INDEPENDENT = ("tests/client/groups/test_independent_commits.py",)
_MISSING = "client/consumer/missing_offsets.py"
_ONE_FAILS = ("tests/client/consumer/test_one_partition_fails.py",)
_FAILURES = "client/consumer/failures.py"
_MOOT = ("tests/client/consumer/test_moot_errors.py",)
_MADE_ANEW = ("tests/client/consumer/test_topics_made_anew.py",)
_AFTER_A_LOSS = ("tests/client/groups/test_commits_after_a_loss.py",)

MUTATIONS = (
    Mutation(
        "the error of one partition's committed offset is that of all",
        "client/offset_queries.py",
        "    return _committed(answer.topics, asked)\n",
        "    found = _committed(answer.topics, asked)\n"
        "    errors = [one for one in found.values() if isinstance(one, KafkaError)]\n"
        "    return dict.fromkeys(asked or found, errors[0]) if errors else found\n",
        _ONE_FAILS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a partition whose start offset has an error for good is never asked for again",
        _MISSING,
        "search.is_asked, search.error = False, error\n",
        "search.is_asked, search.error = not error.retriable, error\n",
        _ONE_FAILS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a start offset that cannot be had is looked for in silence for ever",
        _MISSING,
        "                search.since = now\n                what",
        "                continue\n                what",
        _ONE_FAILS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "each partition that fails is asked for in a request of its own",
        _MISSING,
        "pauses.setdefault(failures, self._backoff.delay_ms(failures) / 1000)",
        "self._backoff.delay_ms(failures) / 1000",
        _ONE_FAILS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a commit that is retried sends the offset that it began with",
        _COMMITS,
        "            other.waiting |= {tp: one for tp, one in waiting.items() if tp in other.waiting}\n",
        "            pass\n",
        _INDEPENDENT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a partition that is committed is sent again with one that failed",
        _COMMITS,
        "        for tp in committed:\n            del commit.waiting[tp]\n",
        "        if len(committed) == len(results):\n            commit.waiting.clear()\n",
        _INDEPENDENT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the commit of a partition that was deleted is retried",
        _COMMITS,
        "return self._is_gone(commit, tp) and not may_appear",
        "return False",
        _INDEPENDENT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the last commit of a consumer takes all the time that there is, and ends without a word",
        "client/consumer/consumer.py",
        "_LAST_COMMIT_TIMEOUT_MS = 4_000 ",
        "_LAST_COMMIT_TIMEOUT_MS = 5_000 ",
        ("tests/client/consumer/test_last_commit.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a member that was removed does not say that its last commit is lost",
        "client/consumer/subscription.py",
        "        known = {tp: positions[tp] for tp in partitions if tp in positions}\n",
        "        known = {tp: positions[tp] for tp in partitions if tp in positions and group.member[0] >= 0}\n",
        ("tests/client/consumer/test_last_commit.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "automatic commits wait for a partition that fails",
        "client/consumer/subscription.py",
        "processed_only=True, retried_ms=0)",
        "processed_only=True, retried_ms=None)",
        _INDEPENDENT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "positions that have not changed are not committed again",
        "client/consumer/subscription.py",
        "        try:\n            await self._commits.commit(known, group, of_positions=True, retried_ms",
        "        if known == getattr(self, 'last', None):\n            return None\n        self.last = known\n"
        "        try:\n            await self._commits.commit(known, group, of_positions=True, retried_ms",
        (*_INDEPENDENT, "tests/client/groups/test_commits.py"),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the position in a deleted topic is kept for the one with its name",
        "client/consumer/fetch_state.py",
        "                state.move(None)\n                state.reset = NO_RESET if held else wanted\n",
        "                pass\n",
        _MADE_ANEW,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "records of a topic that was made anew are passed over, as latest is the default",
        _MISSING,
        "if state.tp in self._fetcher.anew and reset != NO_RESET else reset",
        "if False else reset",
        _MADE_ANEW,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an error that a seek has made moot is raised all the same",
        _FAILURES,
        "any(state.era == era for state, era in eras)",
        "bool(eras)",
        _MOOT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "of several partitions that fail only the first is named",
        _FAILURES,
        "        error, _, raised = self._about.pop(about)\n",
        "        error, _, raised = self._about[about]\n        self._about.clear()\n",
        _MOOT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the error of a membership is raised after the subscription has ended",
        "client/consumer/subscription.py",
        "lambda: self._group is group is not None",
        "lambda: True",
        _MOOT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an offset of a deleted topic is committed for the one with its name",
        "client/consumer/offset_commits.py",
        "elif not of_positions and self._fetcher.is_of_deleted_topic(tp, one.offset):",
        "elif False:",
        _MADE_ANEW,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "given offsets of a partition that was lost have those of the others refused",
        "client/consumer/subscription.py",
        "for tp, one in offsets.items() if tp in self._fetcher.left}",
        "for tp, one in offsets.items() if not tp}",
        _AFTER_A_LOSS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "errors that come again and again starve the partitions that can be read",
        "client/consumer/consumer.py",
        "            self._has_raised = True\n",
        "            self._has_raised = False\n",
        _ONE_FAILS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "commit() leaves out partitions that were lost since their records were returned",
        "client/consumer/subscription.py",
        "            self._fetcher.give_up(partitions)\n",
        "            self._fetcher.assign([tp for tp in self._fetcher.states if tp not in partitions])\n",
        _AFTER_A_LOSS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a partition that was lost, given back and lost again counts as committed",
        "client/consumer/fetch_state.py",
        "if tp not in self.left and (position",
        "if (position",
        _AFTER_A_LOSS,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an offset out of range is reset without a warning",
        _MISSING,
        "                self._warn_of_reset(state, found.offset)\n",
        "",
        ("tests/client/consumer/test_consume.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an offset that is out of range is raised once",
        "client/consumer/background_fetch.py",
        'fetch_again = partial(setattr, state, "not_before", again_at)',
        'fetch_again = partial(setattr, state, "in_flight", False)',
        ("tests/client/consumer/test_out_of_range.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "what was fetched before an offset that is out of range is dropped",
        "client/consumer/background_fetch.py",
        "        if state.buffered:\n            state.is_refused = True\n        elif",
        "        if",
        ("tests/client/consumer/test_out_of_range.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an offset that was refused is asked for at intervals while records before it wait",
        "client/consumer/fetch_state.py",
        "(1 if state.is_refused else RESPONSES_AHEAD)",
        "RESPONSES_AHEAD",
        ("tests/client/consumer/test_out_of_range.py",),
        seeds=TEST_ONLY,
    ),
)
