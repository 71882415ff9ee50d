"""Writes the `server.properties` of a local cluster: checks all before it writes one, and can undo its changes."""

from __future__ import annotations

import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from minikafka.broker.settings.properties_file import PropertiesError, bytes_of, lines_of, read_properties
from minikafka.cli.clusters.cluster_layout import ClusterError, properties_text, with_settings


@dataclass(frozen=True, slots=True)
class Wanted:
    """The wanted settings of a file.

    Attributes:
        basis: the settings of a new file; an existing file keeps its settings.
        chosen: the settings that are added or changed.
    """

    basis: Mapping[str, str]
    chosen: Mapping[str, str]


@dataclass(slots=True)
class NodeFiles:
    """Writes `server.properties` files, and undoes its changes on request.

    Attributes:
        warnings: the warnings that nodes will log when they start, such as settings that do not exist.
    """

    warnings: list[str] = field(default_factory=list[str])
    _new_folders: list[Path] = field(default_factory=list[Path])
    _replaced: dict[Path, str] = field(default_factory=dict[Path, str])

    def write(self, files: Mapping[Path, Wanted]) -> None:
        """Create or change files.

        Raises ClusterError, before any file is written, if a node cannot start with its file. Raises OSError if a file
        cannot be written; then all changes are undone.
        """
        texts = {path: _text(path, wanted) for path, wanted in files.items() if wanted.chosen or not path.exists()}
        checked = [one for path, text in texts.items() for one in _warnings(path, text, files[path].chosen)]
        self.warnings += dict.fromkeys(checked)
        try:
            self._write(texts)
        except OSError:
            self.take_back()
            raise

    def _write(self, texts: Mapping[Path, str]) -> None:
        for path, text in texts.items():
            before = path.read_text() if path.exists() else None
            self._make(path.parent)
            _replace(path, text)
            if before is not None:
                self._replaced[path] = before

    def take_back(self) -> None:
        """Remove the folders that were created, with all that nodes have written there, and undo all other changes."""
        for folder in self._new_folders:
            shutil.rmtree(folder, ignore_errors=True)
        for path, text in self._replaced.items():
            _replace(path, text)

    def _make(self, folder: Path) -> None:
        missing = [one for one in (folder, *folder.parents) if not one.exists()]
        self._new_folders += missing[-1:]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)  # It gets the records of all topics.


def _replace(path: Path, text: str) -> None:
    """Write a file as a whole or not at all. Raises OSError, which names the file."""
    new = path.with_name(f"{path.name}.new")
    try:
        new.write_text(text)
        new.replace(path)
    except OSError as error:
        new.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from error


def moved_from(path: Path) -> str | None:
    """The old data directory of a node whose folder was moved or copied; None for any other node.

    The file of such a node still names the old directory. The node would create that directory anew, or write into the
    data of the node of which it is a copy.
    """
    given = read_settings(path).get("log.dirs", "") if path.exists() else ""
    before, now = Path(given), path.parent / "data"
    if before.parts[-2:] != now.parts[-2:] or "," in given or before.resolve() == now.resolve():
        return None
    return given if now.is_dir() or not before.is_dir() else None


def settings_in(path: Path) -> dict[str, str] | None:
    """The settings in the file of a node; None if there is no file. Raises ClusterError for a malformed file."""
    return read_settings(path) if path.exists() else None


def read_settings(path: Path) -> dict[str, str]:
    """The settings in a `.properties` file. Raises ClusterError, which names the file and the line of what is wrong."""
    try:
        return read_properties(bytes_of(path))
    except PropertiesError as error:
        raise ClusterError(f"{path}, {error}") from None


def _text(path: Path, wanted: Wanted) -> str:
    if path.exists():
        return with_settings(path.read_text(), wanted.chosen)
    return properties_text({**wanted.basis, **wanted.chosen})


def _warnings(path: Path, text: str, chosen: Collection[str]) -> Iterator[str]:
    """The warnings that a node with this text will log. Raises ClusterError if a node cannot start with the text."""
    from minikafka.broker.settings.node_config import ConfigError, load_config

    try:
        places = {name: f"{path}, line {line}" for name, line in lines_of(text).items() if name not in chosen}
        return load_config(properties=read_properties(text), environment=os.environ, places=places).warnings()
    except PropertiesError as error:
        raise ClusterError(f"{path}, {error}") from error
    except ConfigError as error:
        raise ClusterError(str(error)) from error
