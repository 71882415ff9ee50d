"""The settings of a node, a topic or a group: where each value comes from, and which one is effective.

A value comes from one of three layers: the dynamic configs in the metadata image (of one broker or cluster-wide), the
static config that the node was started with, and the defaults. The names, types, bounds and documentation of all
settings are declared in `protocol/settings/`; changing dynamic configs is decided in `controller/decisions/`.

The path of a setting::

    broker/settings/            reads file, environment and command line
    static_settings.py          keeps them as the static config of the node
    effective_settings.py       combines it with the dynamic configs in the image (KIP-226), per topic and group
    (readers)                   partitions, coordinators and decisions ask for the effective value
    describe_configs.py         DescribeConfigs: values, sources, synonyms, documentation

The files::

    static_settings.py          StaticSettings: the static config and the defaults of one node
    effective_settings.py       EffectiveSettings: the effective value and the source of each setting
    metadata_log_settings.py    data directories, the directory and the configuration of the metadata log
    describe_configs.py         the response to DescribeConfigs

*Caveats*

- A node describes only its own broker configs; clients must send the request to that broker, as in Kafka.
- Values of unknown broker configs are hidden in DescribeConfigs, since they may be secrets.
- Policies, config providers and other Java classes are not loaded.
"""
