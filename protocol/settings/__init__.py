"""Every setting of Apache Kafka 4.3, declared once: name, type, default, bounds, update mode, description.

Parsing of configuration files, the checks of CreateTopics and AlterConfigs, DescribeConfigs, the defaults of
dataclasses such as `LogConfig`, and `docs/settings.md` all come from these declarations. To add or change a setting,
edit its line in one of the tables; `supported` is whether minikafka supports it.

The path of a value: the node reads the text of `log.retention.ms` from a file, looks up `NODE_SETTINGS[name]` in
`registry` and calls `Setting.parse`, which trims the text, parses it by type (`value_types`) and checks the bound
(`bounds`). The topic setting `retention.ms` is declared as `inherited` from it and has the same default.

    registry.py            the tables that other packages use: `NODE_SETTINGS`, `TOPIC_SETTINGS`, `GROUP_SETTINGS`, …
    declaration.py         `Setting`, `InvalidSetting`, update modes
    value_types.py         the types; parses and renders text
    bounds.py              validators: ranges, enumerations, patterns
    synonyms.py            settings with several names and units, such as `log.retention.ms` and `log.retention.hours`
    dataclass_fields.py    `setting_field`: a dataclass field with the default of a setting
    reference_page.py      generates `docs/settings.md`

Node settings, merged in node_settings.py (`NODE_SETTINGS`, `inherited`):

    broker.py              identity, listeners, connections, requests, topic creation, client quotas, metrics
    controller.py          the quorum, broker registration and sessions, leader election
    replication.py         fetching by followers, in-sync replicas, replication quotas
    logs.py                segments, retention, flushing, compaction, timestamps; the metadata log
    coordinators.py        groups, committed offsets, share groups, transactions
    security.py            TLS, SASL, delegation tokens
    tiered_storage.py      tiered storage

Settings of other resources:

    topics.py              topics
    groups.py              groups
    quotas.py              client quotas; replication throttles
    client_metrics.py      client metrics subscriptions

Caveats:
    * Client settings (Producer, Consumer, Admin) are declared in `client/options.py`.
    * Defaults are Kafka's. Those that differ in minikafka are `OWN_DEFAULTS` in `broker/settings/node_config.py`.
    * Names of Java classes are accepted but not loaded.
"""
