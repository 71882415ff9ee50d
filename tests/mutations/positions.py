"""Planted bugs in a consumer's commits and positions, of which those of one partition are no other's."""

from mutations import TEST_ONLY, Mutation

_COMMITS = "client/consumer/offset_commits.py"
_INDEPENDENT = ("tests/client/groups/test_independent_commits.py",)

MUTATIONS = (
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
        "return self._is_gone(tp) and not may_appear",
        "return False",
        _INDEPENDENT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "automatic commits wait for a partition that fails",
        "client/consumer/subscription.py",
        "processed_only=True, retried=False)",
        "processed_only=True, retried=True)",
        _INDEPENDENT,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "positions that have not changed are not committed again",
        "client/consumer/subscription.py",
        "        if group is None or group.member[0] >= 0:\n            try:",
        "        if known != getattr(self, 'last', None) and (group is None or group.member[0] >= 0):\n"
        "            self.last = known\n            try:",
        (*_INDEPENDENT, "tests/client/groups/test_commits.py"),
        seeds=TEST_ONLY,
    ),
)
