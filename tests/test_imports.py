"""No two files import each other, not even in a larger circle; imports for type checkers and inside functions count.

The import contract (`.importlinter`) says which package may import which, and forbids circles among the packages and
files of one folder. This test also covers a package's `__init__` and the files under it.
"""

import ast
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PACKAGES = ("broker", "cli", "client", "controller", "protocol", "spark_connector", "storage", "testing")


@pytest.mark.slow
def test_no_file_imports_itself_by_way_of_others() -> None:
    imports = import_graph(path for package in PACKAGES for path in (ROOT / package).rglob("*.py"))
    assert [sorted(circle) for circle in circles(imports)] == []


def test_a_circle_is_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set()}) == [{"b", "c"}]


def import_graph(paths: Iterable[Path]) -> dict[str, set[str]]:
    """The modules that each module names in its import statements; a package is the module of its `__init__`."""
    files = {module_of(path): path for path in paths}
    return {name: {found for found in imported(path) if found in files} - {name} for name, path in files.items()}


def module_of(path: Path) -> str:
    relative = path.relative_to(ROOT).with_suffix("")
    return ".".join(("minikafka", *(part for part in relative.parts if part != "__init__")))


def imported(path: Path) -> Iterator[str]:
    """Modules, and names that may be modules: `from package import name` may mean either."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            names = [f"{node.module}.{alias.name}" for alias in node.names]
            modules = [name for name in names if (ROOT / Path(*name.split(".")[1:])).with_suffix(".py").is_file()]
            yield from modules
            if len(modules) < len(names):
                yield node.module


def circles(graph: Mapping[str, set[str]]) -> list[set[str]]:
    """The strongly connected components of more than one module (Kosaraju's algorithm)."""
    order = finished(graph, graph)
    backwards: dict[str, set[str]] = {name: set() for name in graph}
    for name, targets in graph.items():
        for target in targets:
            backwards[target].add(name)
    seen: set[str] = set()
    found = []
    for name in reversed(order):
        if name not in seen:
            component = set(finished({each: backwards[each] - seen for each in backwards}, [name]))
            seen |= component
            if len(component) > 1:
                found.append(component)
    return found


def finished(graph: Mapping[str, set[str]], starts: Iterable[str]) -> list[str]:
    """The modules that can be reached, in the order in which a depth-first search leaves them."""
    order: list[str] = []
    seen: set[str] = set()
    for start in starts:
        path = [] if start in seen else [(start, iter(sorted(graph[start])))]
        seen.add(start)
        while path:
            name, targets = path[-1]
            target = next((each for each in targets if each not in seen), None)
            if target is None:
                order.append(name)
                path.pop()
            else:
                seen.add(target)
                path.append((target, iter(sorted(graph[target]))))
    return order
