"""Producer, Consumer and Admin for code without async.

    with Producer(bootstrap_servers="localhost:9092") as producer:
        producer.send("flights", b"…", key=b"N14228")

    with Consumer("flights", group_id="delays") as consumer:
        for record in consumer:
            …

Each client runs its async counterpart in an asyncio event loop on a separate thread, for as long as its `with`
block lasts. A method passes its call to that loop and waits for the result. `Producer.send` does not wait: it puts the
record into an inbox, which the loop empties. Several threads may share a client, but only one may iterate over a
Consumer.

A call that is interrupted, by Ctrl-C or by a signal handler that raises, is cancelled, and the client can be used
further. A client cannot be used in a forked child process: each process opens its own. A client that is never closed
delays the end of the interpreter by at most five seconds: for deliveries, to abort transactions, to leave groups.

    blocking_client.py `BlockingClient`: a `with` block, and calls into the event loop
    loop_thread.py     the event loop's thread
    producer.py        Producer, with its inbox of records, and BlockingDelivery
    refusals.py        errors of records that were refused after they were queued; logged unless the application asks
    consumer.py        Consumer, which iterates over records taken in advance
    listener.py        Listener, whose callbacks are called on the application's thread
    admin.py           Admin

Inside async code use `minikafka.client`: these clients would block the event loop.

Caveats:
    * Ctrl-C in a `transaction()` block aborts the transaction first: if no broker can be reached, it takes five seconds
      until KeyboardInterrupt is raised, and a log line says so. A second Ctrl-C ends the wait.
"""

from minikafka.client.blocking.admin import Admin
from minikafka.client.blocking.consumer import Consumer
from minikafka.client.blocking.listener import Listener
from minikafka.client.blocking.producer import BlockingDelivery, Producer

__all__ = ["Admin", "BlockingDelivery", "Consumer", "Listener", "Producer"]
