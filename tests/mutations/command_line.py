"""Planted bugs in the command line: which process is a node, which cluster a command asks, what is deleted."""

from mutations import TEST_ONLY, Mutation

_PROCESS = "cli/node_process.py"
_CONTROL = "tests/cli/test_cluster_control.py"

MUTATIONS = (
    Mutation(
        "a stale pid file names whatever process has its number",
        _PROCESS,
        '    if "server" not in words or "--config" not in words[:-1]:\n        return False\n'
        "    return (directory / words[words.index(\"--config\") + 1]).resolve() == config.resolve()\n",
        "    return bool(words)\n",
        (f"{_CONTROL}::test_a_stale_pid_file_names_no_other_process",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a signal goes to the process that has the number of one that has ended",
        _PROCESS,
        "            if find() == pid:\n",
        "            if handle:\n",
        (f"{_CONTROL}::test_a_process_that_ends_before_the_signal_is_not_confused_with_another",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a file of contexts that cannot be written whole is lost",
        "cli/contexts.py",
        "            os.unlink(temporary)\n        raise\n",
        "            os.unlink(path)\n        raise\n",
        ("tests/cli/test_contexts.py::test_a_write_that_fails_leaves_the_file_before",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a partition that was made anew has a rate below zero",
        "cli/top_rows.py",
        "if tp in before and end >= before[tp]}",
        "if tp in before}",
        ("tests/cli/test_top.py::test_rates_between_two_looks",),
        seeds=TEST_ONLY,
    ),
)
