"""The connector's blocking client: connections to brokers, metadata, offsets.

    offset_reader.py  metadata, log start and end offsets, offsets by timestamp, offset commits; with retries
    sockets.py        a blocking connection to one broker; clocks
    waiting.py        logs long waits for the brokers
"""
