"""The settings of a node: a `server.properties` for Apache Kafka works unchanged.

`load_config` merges the file, the environment variables (with the names of the official Docker image) and `--set`,
fills in defaults, parses every value, checks the rules between settings, and returns a `NodeConfig` or raises a
`ConfigError` that names all problems. Names, types, bounds and Kafka's defaults are declared in
`minikafka.protocol.settings`.

    node_config.py       NodeConfig, the few defaults that differ from Kafka's, unknown names
    altered_settings.py  settings of security and listeners that are altered while the node runs
    own_settings.py      the settings that Kafka does not have
    environment.py       settings in environment variables
    container.py         the defaults of a node in a container
    properties_file.py   Java's `.properties` format
    listeners.py         `NAME://host:port`, protocols of listeners, ports
    rules.py             rules between settings; `Problem`, an invalid setting

*Caveats*: settings that minikafka does not support are accepted with a warning. Settings changed while the node runs
are in `minikafka.controller.settings`.
"""
