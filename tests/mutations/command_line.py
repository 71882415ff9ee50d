"""Planted bugs in the command line, and in what a node says: its log, and why it cannot start."""

from mutations import TEST_ONLY, Mutation

_PROCESS = "cli/node_process.py"
_CONTROL = "tests/cli/test_cluster_control.py"

MUTATIONS = (
    # -- produce -----------------------------------------------------------------------------------------------------
    Mutation(
        "all lines that are read together go to one partition",
        "cli/spread.py",
        "size = max(PIECE_LINES_MIN, -(-count // len(partitions)))",
        "size = max(PIECE_LINES_MIN, count)",
        ("tests/cli/test_produce.py::test_lines_without_keys_are_spread",),
    ),
    Mutation(
        "Ctrl-C waits for a broker that does not answer before anything was sent",
        "cli/running.py",
        "at_once = self.signal or self.starts",
        "at_once = self.signal",
        ("tests/cli/test_produce.py::test_ctrl_c_ends_a_command_that_has_not_begun_at_once",),
    ),
    Mutation(
        "lines that were read but not delivered are not counted",
        "cli/produce.py",
        "                self._read += len(lines)\n",
        "",
        ("tests/cli/test_produce.py::test_a_second_ctrl_c_aborts_pending_deliveries",),
    ),
    # -- what is well ----------------------------------------------------------------------------------------------
    Mutation(
        "health counts replicas in sync at brokers that are gone",
        "cli/health.py",
        "[replica for replica in one.in_sync_replicas if replica in live]",
        "list(one.in_sync_replicas)",
        ("tests/cli/test_views.py::test_only_replicas_at_brokers_that_answer_count",),
    ),
    Mutation(
        "a cluster that cannot start leaves its settings",
        "cli/cluster.py",
        "            nodes.remove_new_folders()\n",
        "            pass\n",
        ("tests/cli/test_cluster.py::test_a_cluster_that_cannot_start_leaves_nothing",),
    ),
    Mutation(
        "garbage is a good index",
        "cli/dump_log.py",
        "return line if entry[0] >= last[0] and entry[1] >= last[1] else",
        "return line if entry[0] >= last[0] or entry[1] >= last[1] else",
        ("tests/cli/test_dump_log.py::test_garbage_is_damage",),
    ),
    Mutation(
        "garbage is a good checkpoint",
        "cli/dump_log.py",
        "        parse(disk, name)\n",
        "        pass\n",
        ("tests/cli/test_dump_log.py::test_garbage_is_damage",),
    ),
    Mutation(
        "offsets beyond 64 bits are taken for the end",
        "cli/numbers.py",
        "<= number < limit else None",
        "<= number else None",
        ("tests/cli/test_numbers.py::test_a_number_is_taken_if_its_field_holds_it",),
    ),
    Mutation(
        "a name that no host has ends a client with a trace",
        "client/connections/seams.py",
        "    except ValueError as error:\n",
        "    except LookupError as error:\n",
        ("tests/client/connections/test_connection.py::test_a_name_that_no_host_has_is_an_error_of_the_network",),
    ),
    Mutation(
        "a group that was probably meant is not named",
        "cli/options.py",
        "{meant(name, known)}: ",
        ": ",
        ("tests/cli/test_main.py::test_the_group_that_was_meant_is_named",),
    ),
    # -- what a terminal obeys ------------------------------------------------------------------------------------
    Mutation(
        "the second set of control characters reaches terminals",
        "protocol/visible.py",
        "\\x7f-\\x9f",
        "\\x7f",
        ("tests/protocol/test_visible.py::test_every_character_that_is_obeyed_is_escaped_and_others_stay",),
    ),
    Mutation(
        "names in tables are printed raw",
        "cli/tables.py",
        "[visible(str(cell)) for",
        "[str(cell) for",
        ("tests/cli/test_terminal.py::test_what_others_have_named_is_escaped",),
    ),
    Mutation(
        "errors are printed raw",
        "cli/output.py",
        "click.echo(visible(text, lines=True), err=err, nl=nl)",
        "click.echo(text, err=err, nl=nl)",
        ("tests/cli/test_terminal.py::test_what_was_typed_is_escaped",),
    ),
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
    Mutation(
        "with --json a usage error is printed as text",
        "cli/failures.py",
        '    return "--json" in options and arguments[0] != "produce"\n',
        '    return "--json" in options[:1]\n',
        ("tests/cli/test_json.py::test_a_broker_that_does_not_respond_is_json",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the log has the secrets of settings that were changed",
        "controller/metadata/change_log.py",
        "    return setting is None or setting.sensitive\n",
        "    return setting is not None and setting.sensitive and False\n",
        ("tests/controller/metadata/test_change_log.py::test_changed_settings_and_quotas_are_logged_without_secrets",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a peer's words are logged at any length",
        "broker/node/logging_setup.py",
        "        case str():\n            return shortened(value)\n",
        "        case str():\n            return value\n",
        ("tests/broker/node/test_logging_setup.py",),
    ),
    Mutation(
        "an unclean election is logged as a clean one",
        "controller/metadata/change_log.py",
        "        is_clean = leader in before.isr or leader in before.elr\n",
        "        is_clean = True\n",
        ("tests/controller/metadata/test_change_log.py::test_lost_records_and_missing_leaders_are_warnings",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a client's socket on the port is taken for the process that listens",
        "broker/node/holders.py",
        "words[3] == LISTENING and int(",
        "int(",
        ("tests/broker/node/test_start_errors.py::test_a_socket_of_a_client_does_not_hold_the_port",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "one partition without a leader withholds the offsets of the others",
        "client/offset_queries.py",
        "    if leaderless and not partly:\n",
        "    if leaderless:\n",
        ("tests/client/test_offset_queries.py::test_a_partition_without_a_leader_does_not_withhold_the_others",),
        seeds=TEST_ONLY,
    ),
)
