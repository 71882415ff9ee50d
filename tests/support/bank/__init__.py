"""The bank: transfers between accounts as read-process-write, by a program for each client, and what must hold of them.

A transfer `id from to amount` is read from a topic; a debit and a credit are written to the ledger, to the partitions
of the two accounts; the offset is committed with them. What one transaction writes has a name, the attempt, and the
attempt's size, so that a reader can tell torn transactions, transfers counted twice, and records that were aborted.

    transfers.py             the records, and `Audit`: what must hold of each snapshot of the ledger. Pure
    ledger.py                reads snapshots of the ledger with librdkafka, in a thread while the faults go on
    programs.py              the processes: they start, die, hang, and come back as zombies; each has another client
    work.py                  what the programs in Python share: their arguments, and what they write
    with_minikafka.py, with_confluent.py, with_aiokafka.py, with_kafka_python.py, Transfers.java: the programs

A program is either a member of a group, dynamic or static (KIP-345), and sends its membership along with the offsets
(KIP-447), or has a partition and a transactional id of its own (KIP-98), for clients that know no more.
"""
