"""Reads how a quorum identifies a controller from its own files: node id, directory id and addresses (KIP-853)."""

from __future__ import annotations

from pathlib import Path

import click

from minikafka.broker.settings.node_config import ConfigError, NodeConfig, load_config
from minikafka.broker.settings.properties_file import PropertiesError, bytes_of, read_properties
from minikafka.storage.disks import checkpoint_files
from minikafka.storage.disks.disk import RealDisk

__all__ = ["config_in", "identity_in"]


def identity_in(config: Path) -> tuple[int, str, dict[str, str]]:
    """The node id, the directory id and the addresses of the controller with this configuration file.

    Raises:
        click.ClickException: the file is not of a controller, or the metadata directory has no id yet.
    """
    settings = config_in(config)
    if not settings.is_controller:
        raise click.ClickException(f"{config} is no controller's: process.roles does not name the role")
    path = f"{settings.metadata_log_dir}/{checkpoint_files.META_PROPERTIES}"
    try:
        found = checkpoint_files.read_properties(RealDisk(), path) or {}
    except checkpoint_files.BrokenCheckpoint as error:
        raise click.ClickException(str(error)) from error
    if "directory.id" not in found:
        raise click.ClickException(f"{path} has no directory.id: format or start the controller first")
    addresses = {one.name: f"{one.host}:{one.port}" for one in settings.listeners.advertised_for_controllers}
    nowhere = [name for name, address in addresses.items() if address.startswith((":", "0.0.0.0:", ":::"))]
    if nowhere or not addresses:
        raise click.ClickException(
            f"{config} names no address by which others reach listener {nowhere[0] if nowhere else 'CONTROLLER'}: "
            "set advertised.listeners"
        )
    return settings.node_id, found["directory.id"], addresses


def config_in(file: Path) -> NodeConfig:
    """The settings in a file. Raises click.ClickException with all problems."""
    try:
        return load_config(properties=read_properties(bytes_of(file)))
    except (ConfigError, PropertiesError) as error:
        raise click.ClickException(str(error)) from error
