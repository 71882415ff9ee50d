"""Planted bugs in hostile hands: requests, values and frames that end more than themselves."""

from mutations import Mutation

_APPLIED = "tests/broker/partitions/test_metadata_not_applied.py"
_CONTROLLER = "controller/quorum_controller.py"
_FORWARDED = "controller/active/forwarded_requests.py"
_REQUESTS = "tests/controller/test_hostile_requests.py"
_SETTINGS = "tests/controller/test_hostile_settings.py"
_RESPONSES = "tests/controller/quorum/test_raft_responses.py"
_VALUES = "protocol/settings/value_types.py"

MUTATIONS = (
    Mutation(
        "a bug in a forwarded request ends the active controller",
        _FORWARDED,
        "    except Exception:\n        api =",
        "    except ZeroDivisionError:\n        api =",
        (_REQUESTS,),
    ),
    Mutation(
        "a request that ends its receiver is sent to every next leader",
        _CONTROLLER,
        "lost == LOST_MAX or not (error.certain or is_idempotent(request))",
        "not (error.certain or is_idempotent(request))",
        (_REQUESTS,),
    ),
    Mutation(
        "a request is given up after two elections",
        _CONTROLLER,
        "lost += isinstance(error, ReceiverLost)",
        "lost += not error.certain",
        (_REQUESTS,),
    ),
    Mutation(
        "a bug in a decision ends the task that decides",
        "controller/active/request_queue.py",
        "                except Exception:\n",
        "                except ZeroDivisionError:\n",
        (_REQUESTS,),
    ),
    Mutation(
        "a bug in a handler closes the connection",
        "broker/connections/dispatcher.py",
        "    response = _refusal(step, UnknownServerError())\n",
        "    raise Disconnect\n",
        ("tests/broker/connections/test_dispatcher.py",),
    ),
    Mutation(
        "a hexadecimal number that is too large is an error of Python",
        _VALUES,
        "    except OverflowError:\n",
        "    except ZeroDivisionError:\n",
        (_SETTINGS,),
    ),
    Mutation(
        "an error message quotes a value in full",
        "protocol/errors.py",
        "shortened(message) or",
        "message or",
        (_SETTINGS, "tests/protocol/test_errors.py"),
    ),
    Mutation(
        "a stored limit of connections that is no number ends the brokers that read it",
        "broker/node/runtime_settings.py",
        "contextlib.suppress(NotOfType)",
        "contextlib.suppress(KeyError)",
        ("tests/broker/node/test_runtime_settings.py",),
    ),
    Mutation(
        "bytes that are no UTF-8 close the connection",
        "protocol/codec/compile_decoder.py",
        "data[position:end].decode('utf-8', 'replace')",
        "data[position:end].decode()",
        (_SETTINGS,),
    ),
    Mutation(
        "a producer whose last transaction timed out meets an assertion",
        "broker/coordinator/transactions/init_producer.py",
        "    return current.producer_epoch == EPOCH_MAX and expected.epoch == current.last_producer_epoch\n",
        "    return False\n",
        ("tests/broker/coordinator/transactions/test_last_epochs.py",),
    ),
    Mutation(
        "a time-out leaves its producer the epoch that is for fencing",
        "broker/coordinator/transactions/transaction_shard.py",
        "            if version >= EPOCH_PER_TRANSACTION and is_exhausted(",
        "            if version > EPOCH_PER_TRANSACTION and is_exhausted(",
        (
            "tests/broker/coordinator/transactions/test_last_epochs.py",
            "tests/broker/coordinator/transactions/test_transaction_coordinator.py",
        ),
    ),
    Mutation(
        "more partitions of an internal topic move its keys at once",
        "broker/coordinator/internal_topic.py",
        "        if known.id not in self._counts:\n",
        "        if True:\n",
        ("tests/broker/coordinator/test_added_partitions.py",),
    ),
    Mutation(
        "a node that is asked later maps the keys of an internal topic by its partitions then",
        "broker/coordinator/coordinator_lookup.py",
        "            partition_of(\"\")\n",
        "            pass\n",
        ("tests/broker/coordinator/test_added_partitions.py",),
    ),
    Mutation(
        "EndTxn answers with the epoch that is for fencing",
        "broker/coordinator/transactions/end_transaction.py",
        "    if current.producer_epoch == EPOCH_MAX and current.state is not ONGOING:\n",
        "    if False:\n",
        ("tests/broker/coordinator/transactions/test_last_epochs.py",),
    ),
    Mutation(
        "a bug at a deadline of a group ends the node",
        "broker/coordinator/timer.py",
        "        except Exception:\n            before_ms",
        "        except KeyError:\n            before_ms",
        ("tests/broker/coordinator/test_timer.py",),
    ),
    Mutation(
        "a deadline whose decision met a bug never comes again",
        "broker/coordinator/timer.py",
        "            self._state.deadlines.set(name, self._now().steady_ms + retry_ms)\n",
        "",
        ("tests/broker/coordinator/test_timer.py",),
    ),
    Mutation(
        "a record that met a bug while it was applied is missing until the coordinator moves",
        "broker/coordinator/runtime.py",
        "            if shard.last_offset != before:\n",
        "            if shard.last_offset < before:\n",
        ("tests/broker/coordinator/test_reload.py",),
    ),
    Mutation(
        "descriptions of groups quote their ids in full",
        "broker/coordinator/groups/group_admin.py",
        "{shortened(group_id)}",
        "{group_id}",
        ("tests/conversations/test_hostile_strings.py",),
    ),
    Mutation(
        "a repetition of very many times matches its own text",
        "controller/patterns.py",
        "        if _TOO_MANY.search(",
        "        if not text and _TOO_MANY.search(",
        ("tests/broker/coordinator/groups/consumer/test_subscription_pattern.py",),
    ),
    Mutation(
        "the metadata log of Apache Kafka is refused only when its records are applied",
        "controller/metadata/metadata_log.py",
        "                if value[:1] == KAFKA_FRAME_VERSION:\n",
        "                if False:\n",
        ("tests/controller/quorum/test_raft_log.py",),
    ),
    Mutation(
        "why a leader's response is refused is logged each time",
        "controller/quorum/raft_events.py",
        '(log.debug if is_repeated else log.error)("malformed raft response"',
        'log.error("malformed raft response"',
        (_RESPONSES,),
    ),
    Mutation(
        "a response of a leader that meets a bug ends the node",
        "controller/quorum/raft_driver.py",
        "        except Exception:\n            log.exception(",
        "        except ZeroDivisionError:\n            log.exception(",
        (_RESPONSES,),
    ),
    Mutation(
        "records that were appended before a bug are acknowledged before they are synced",
        "controller/raft/raft_follower.py",
        "        finally:  # The next Fetch acknowledges them, also after an exception.\n",
        "        else:\n",
        (_RESPONSES,),
    ),
    Mutation(
        "a record that meets a bug keeps the rest of its batch from being applied",
        "broker/partitions/partition_lifecycle.py",
        "                yield from self._apply(record)\n            except (OSError, KafkaStorageError):",
        "                yield from self._apply(record)\n            except Exception:",
        (_APPLIED,),
    ),
    Mutation(
        "a subscriber of metadata that meets a bug ends the node",
        "controller/metadata/subscribers.py",
        "        except Exception:",
        "        except ZeroDivisionError:",
        (_APPLIED,),
    ),
    Mutation(
        "a negative offset is the end of a log",
        "client/offset_queries.py",
        "one.offset < (0 if wanted[tp] in (LATEST, EARLIEST) else NO_OFFSET):",
        "one.offset < -(1 << 63):",
        ("tests/client/connections/test_odd_answers.py::test_an_offset_that_cannot_be_is_asked_for_again",),
    ),
    Mutation(
        "a producer may claim LogAppendTime where the node sets the time",
        "broker/partitions/batch_validation.py",
        "    if batch.timestamp_type == LOG_APPEND_TIME:\n        return True\n",
        "",
        ("tests/broker/partitions/test_batch_validation.py::test_a_batch_that_claims_log_append_time",),
    ),
    Mutation(
        "the records of a batch that claims LogAppendTime have their own timestamps",
        "broker/partitions/batch_validation.py",
        "        return (-UNBOUNDED, UNBOUNDED) if allowed else (UNBOUNDED, -UNBOUNDED)\n",
        "        return (earliest - base, latest - base) if allowed else (UNBOUNDED, -UNBOUNDED)\n",
        ("tests/broker/partitions/test_batch_validation.py::test_a_batch_that_claims_log_append_time",),
    ),
)
