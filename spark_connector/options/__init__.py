"""Options of the source and the sink: parsed and validated as Spark's Kafka source and sink do. Pure.

    client_settings.py    names of the settings of Kafka's clients, for options that begin with kafka.
    rate_limits.py        maxOffsetsPerTrigger, minOffsetsPerTrigger, maxTriggerDelay
    offsets.py            the JSON form of offsets, in options and checkpoints
    sink_options.py       parses and validates the options of writes
    producer_settings.py  the Java producer's settings among the options of writes, and the checks of their values
    source_options.py     parses and validates all options of reads
"""
