"""The pages of the documentation: links, blocks by kind, and the files and commands that they only name."""

from __future__ import annotations

import json
import re
import shlex
from itertools import pairwise
from pathlib import Path

import click
import pytest
from support.pages import DOCS, ROOT, RUN, blocks, pages, prose, slug

from minikafka.broker.settings.own_settings import OWN_SETTINGS
from minikafka.broker.settings.properties_file import read_properties
from minikafka.broker.settings.sasl_settings import is_sasl_setting_of_listeners
from minikafka.cli.main import cli
from minikafka.protocol.settings.registry import STATIC_SETTINGS, listener_base_name

PAGES = {page.relative_to(ROOT).as_posix(): page for page in pages()}
LINK = re.compile(r"!?\[[^\]]*\]\((?P<target>[^)\s]+)\)")
HEADING = re.compile(r"^#+ (?P<text>.+?)(?: \{ *#(?P<anchor>[\w-]+) *\})?$", re.MULTILINE)
FOLDERS = "broker|cli|client|controller|protocol|storage|spark_connector|testing|tests|examples|bench|docs"
PATH = re.compile(rf"`((?:{FOLDERS})/[\w./-]+)`")
every_page = pytest.mark.parametrize("page", PAGES.values(), ids=PAGES)
MAKE = re.compile(r"^(?P<target>[a-z-]+):", re.MULTILINE)


def anchors(page: Path) -> set[str]:
    return {found["anchor"] or slug(found["text"]) for found in HEADING.finditer(prose(page))}


@every_page
def test_links_lead_to_pages_and_headings_that_exist(page: Path) -> None:
    broken = []
    for found in LINK.finditer(prose(page)):
        path, _, anchor = found["target"].partition("#")
        target = (page.parent / path).resolve() if path else page
        if ":" in path or path == "reference/":
            continue
        if not target.is_file() or (anchor and target.suffix == ".md" and anchor not in anchors(target)):
            broken.append(found["target"])
    assert broken == []


@every_page
def test_files_that_the_page_names_exist(page: Path) -> None:
    missing = [name for name in PATH.findall(prose(page)) if not (ROOT / name).exists()]
    assert missing == []


@every_page
def test_every_block_is_fenced_and_says_what_it_is(page: Path) -> None:
    blocks(page)
    lines = prose(page).split("\n")
    indented = [
        number
        for number, (before, line) in enumerate(pairwise(lines), 2)
        if line.startswith("    ") and not before.strip() and line.strip()
    ]
    assert indented == [], "lines of code that are not in a fence, counted without blocks"


@every_page
def test_a_file_that_a_page_has_its_reader_save_is_run_by_a_later_block(page: Path) -> None:
    found = blocks(page)
    unused = [
        one.place
        for number, one in enumerate(found)
        if one.is_file and not any(later.language in RUN and one.title in later.text for later in found[number + 1 :])
    ]
    assert unused == []


@every_page
def test_data_is_well_formed(page: Path) -> None:
    for one in blocks(page):
        if one.language == "json":
            json.loads(one.text)
        elif one.language == "properties":
            names = [name for name in read_properties(one.text.encode()) if not is_sasl_setting_of_listeners(name)]
            names = [listener_base_name(name) or name for name in names]
            unknown = [name for name in names if name not in {**STATIC_SETTINGS, **OWN_SETTINGS}]
            assert unknown == [], one.place


@every_page
def test_commands_that_are_not_run_exist(page: Path) -> None:
    """Of blocks of text: targets of the Makefile, files of tests, and command lines of ours."""
    targets = {found["target"] for found in MAKE.finditer((ROOT / "Makefile").read_text())}
    for one in blocks(page):
        for line in one.text.splitlines() if one.language == "text" and one.title != "Output" else []:
            words = line.partition(" #")[0].split()
            if words[:1] == ["make"] and len(words) > 1 and "/" not in words[1]:
                assert words[1] in targets, f"{one.place}: {line}"
            if words[:1] == ["pytest"]:
                files = [word for word in words if word.startswith("tests/")]
                assert all((ROOT / file).exists() for file in files), f"{one.place}: {line}"
            if words[:1] == ["minikafka"] and not re.search(r"[\[…]|COMMAND", line):
                check_command_line(line, one.place)


def check_command_line(line: str, place: str) -> None:
    """That our command takes these words."""
    words = shlex.split(line, comments=True)[1:]
    command: click.Command = cli
    context = click.Context(cli, info_name="minikafka")
    while isinstance(command, click.Group) and words and not words[0].startswith("-"):
        chosen = command.get_command(context, words[0])
        assert chosen is not None, f"{place}: {line}"
        command, words = chosen, words[1:]
    known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)} | {"--help", "-h"}
    unknown = [word for word in words if re.match(r"--?[a-z]", word) and word.partition("=")[0] not in known]
    assert unknown == [], f"{place}: {line}"


def test_every_page_is_in_the_navigation_of_the_site() -> None:
    """Each exactly once."""
    named = re.findall(r"^ *- (?:[^:\n]+: )?([\w/.-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    there = [page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md")]
    assert sorted(named) == sorted(there)
