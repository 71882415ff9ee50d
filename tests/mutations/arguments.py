"""Planted bugs in the checks of arguments, and in what keeps one bad record from stopping the others."""

from mutations import TEST_ONLY, Mutation

_RECORDS = "tests/client/producer/test_careless_records.py"
_BEYOND_MEMORY = ("tests/client/producer/test_beyond_memory.py",)
_ARGUMENTS = "tests/client/test_arguments.py"

MUTATIONS = (
    Mutation(
        "a batch that cannot be encoded ends the sender",
        "client/producer/sender.py",
        "            except Exception as error:  # noqa: BLE001 (`send` should",
        "            except KafkaError as error:  # noqa: BLE001 (`send` should",
        (f"{_RECORDS}::test_records_that_cannot_be_encoded_fail_alone",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an exception of a partitioner ends the task that empties the inbox",
        "client/blocking/producer.py",
        "                except Exception as error:  # noqa: BLE001",
        "                except ValueError as error:  # noqa: BLE001",
        (f"{_RECORDS}::test_a_partitioner_fails_its_record_alone",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a pair of short names is taken for two headers",
        "client/argument_kinds.py",
        "        if not isinstance(pair, tuple | list) or len(pair) != 2:\n",
        "        if not hasattr(pair, \"__len__\") or len(pair) != 2:\n",
        (f"{_RECORDS}::test_what_cannot_be_sent_is_refused_by_send_and_all_else_goes_on",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "the methods of a consumer do not check their arguments",
        "client/consumer/consumer.py",
        "@checks_arguments()\n",
        "",
        (f"{_ARGUMENTS}::test_a_closed_client_refuses_by_name_what_it_could_not_carry_out",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a whole number may be of any size",
        "client/argument_kinds.py",
        "        if not low <= number <= high:\n",
        "        if not low <= number:\n",
        (f"{_ARGUMENTS}::test_an_open_client_goes_on_after_every_call",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an error is unpickled by its constructor",
        "protocol/errors.py",
        "return _restored, (type(self), self.args), self.__dict__",
        "return type(self), self.args, self.__dict__",
        ("tests/client/test_errors_survive_pickle.py::test_all_exceptions_are_the_same_afterwards",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a tuple of topic and partition may name no topic",
        "client/argument_kinds.py",
        "        topic = TOPIC_NAME(value[0])\n",
        "        topic = TEXT(value[0])\n",
        ("tests/client/test_topic_names.py::test_an_impossible_name_is_refused_before_anything_is_sent",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an argument that a method does not have is left to Python",
        "client/argument_checks.py",
        "                if path not in self.by_name:\n",
        "                if False:\n",
        ("tests/client/test_unknown_arguments.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "an argument that send() does not have is lost without a word",
        "client/producer/producer.py",
        "        if unknown:\n",
        "        if False:\n",
        ("tests/client/test_unknown_arguments.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "what an argument is called here is guessed from its letters only",
        "client/unknown_arguments.py",
        "        if ours in known:\n",
        "        if False:\n",
        ("tests/client/test_unknown_arguments.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a record that never fits into buffer_memory is taken",
        "client/producer/producer.py",
        "min(self._options.max_request_size, self._options.buffer_memory)",
        "self._options.max_request_size",
        _BEYOND_MEMORY,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a buffer_memory into which no record fits is taken",
        "client/options.py",
        "33_554_432, between(RECORD_OVERHEAD_BYTES, 1 << 62),",
        "33_554_432, between(0, 1 << 62),",
        _BEYOND_MEMORY,
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a local cluster of no brokers has three",
        "cli/local_cluster.py",
        "BROKERS if brokers is None else brokers",
        "brokers or BROKERS",
        ("tests/cli/test_cluster_arguments.py",),
        seeds=TEST_ONLY,
    ),
    Mutation(
        "a local cluster does not look at the types of its arguments",
        "cli/cluster_arguments.py",
        "    return read_argument(\"LocalCluster\", name, _KINDS[name], value)",
        "    return value",
        ("tests/cli/test_cluster_arguments.py",),
        seeds=TEST_ONLY,
    ),
)
