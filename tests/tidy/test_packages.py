"""A newcomer finds his way by the packages: each names its modules, and no module is too small to look for.

These tests read the source as text and syntax tree; they import nothing of it.
"""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PACKAGES: Final = ("broker", "config", "controller", "protocol", "storage")
PRODUCT: Final = (*PACKAGES, "spark_jobs")

ONE_PER_API: Final = re.compile(r"\bone module per API\b", re.IGNORECASE)
"""A package that introduces itself so need not list its modules, which are named after the APIs."""

ONE_PER_THING: Final = re.compile(r"\bone module per (API|subject|command|kind of \w+)\b", re.IGNORECASE)
"""The modules of a package that introduces itself so may be small."""

SMALLEST_MODULE_LINES: Final = 40

SMALL_MODULES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "broker/fast_lane/epoch.py": "a number that packages share which know nothing of the lane",
        "broker/simulation/coverage.py": "counters that all of the simulator adds to",
        "broker/simulation/shrinking.py": "one algorithm",
        "config/setting.py": "the value that all readers of settings make",
        "controller/metadata/random_ids.py": "a function that eight modules share",
        "controller/raft/starting.py": "one transition",
        "protocol/peer_channel.py": "a port",
        "protocol/producer_snapshot.py": "the schema of one file",
        "protocol/serving/sasl_out_of_turn.py": "two handlers that brokers and controllers share",
        "storage/clean_shutdown.py": "the format of one file",
        "storage/permits.py": "a semaphore that two packages use",
    }
)
"""Modules of fewer lines that stand by themselves for a reason. `__main__` is not listed, nor are modules of
packages with one module per API, subject, command or kind."""

_SUBJECT: Final = "the image of a subject, and the decisions about it"

SAME_MODULE_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "broker: child": "the process of an embedded broker, and that of a worker",
        "broker: forwarding": "the handler that forwards, and the channel over which it does",
        "broker: machine": "the machine below a node, and a simulated one",
        "broker: surroundings": "the surroundings of a node, and simulated ones",
        "controller: brokers": _SUBJECT,
        "controller: configs": _SUBJECT,
        "controller: elections": "elections of the quorum's leader, and of partition leaders",
        "controller: policies": "the rules of the operator, and the decisions that wait for them",
        "controller: producer_ids": _SUBJECT,
        "controller: topics": _SUBJECT,
        "protocol: errors": "the errors of the protocol, and those of record batches",
    }
)
"""Names that several modules of a layer have, with the reason. Names of APIs are not listed."""

SAME_CLASS_NAMES: Final[Mapping[str, str]] = MappingProxyType(
    {
        "ChildProcess": "the port and its real side",
        "Follower": "Kafka's word for a replica of a partition, and of the quorum",
        "Leader": "Kafka's word for a replica of a partition, and of the quorum",
        "Machine": "a simulated host with a replica of the quorum, and one with a whole node",
        "Network": "the port, and the simulated network of a quorum",
        "Operation": "what is authorized, and what a client of a history asked for",
        "Record": "one in a log, and one that a client of a history knows of",
        "Role": "the roles of a partition's replica, and of the quorum's",
        "Verdict": "on a fetched partition, and on a history",
        "RoleCause": "the roles of a partition's replica, and of the quorum's",
    }
)
"""Names that several classes have, with the reason."""

PRIVATE_WORDS: Final = re.compile(
    r"\b(chores?|weather|agenda|cut marks?|vitals|neighbours?)\b", re.IGNORECASE
)
"""Words that meant something to its authors only, where Kafka or everybody has another one."""


def packages() -> list[Path]:
    return sorted(path.parent for layer in PACKAGES for path in (ROOT / layer).rglob("__init__.py"))


def modules() -> list[Path]:
    return sorted(
        path for layer in PRODUCT for path in (ROOT / layer).rglob("*.py") if path.name != "__init__.py"
    )


def relative(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def docstring(package: Path) -> str:
    return ast.get_docstring(ast.parse((package / "__init__.py").read_text())) or ""


def introduction(package: Path) -> str:
    """The first paragraph of a package's docstring."""
    return docstring(package).partition("\n\n")[0]


def lists_no_modules(package: Path) -> bool:
    return ONE_PER_API.search(introduction(package)) is not None


def may_have_small_modules(package: Path) -> bool:
    return (package / "__init__.py").exists() and ONE_PER_THING.search(introduction(package)) is not None


def named_parts(text: str) -> list[str]:
    """The names at the beginning of each bullet; that of a package ends with a slash."""
    names = []
    for bullet in re.findall(r"^\* ((?:`[^`]+`(?:, )?)+)\s+\S", text, re.MULTILINE):
        names += re.findall(r"`([^`]+)`", bullet)
    return names


def parts_of(package: Path) -> set[str]:
    files = {path.stem for path in package.glob("*.py") if path.stem != "__init__"}
    folders = {f"{path.name}/" for path in package.iterdir() if path.is_dir() and any(path.rglob("*.py"))}
    return files | folders


def complain(faults: list[str], remedy: str) -> None:
    if faults:
        pytest.fail("\n  ".join([f"{remedy}:", *faults]), pytrace=False)


def test_packages_list_their_modules() -> None:
    faults = []
    for package in packages():
        if lists_no_modules(package):
            continue
        named, there = named_parts(docstring(package)), parts_of(package)
        named = [name.rstrip("/") + "/" * (f"{name.rstrip('/')}/" in there) for name in named]
        faults += [f"{relative(package)} does not name {name}" for name in sorted(there.difference(named))]
        faults += [
            f"{relative(package)} names {name}, which is not there" for name in named if name not in there
        ]
        faults += [
            f"{relative(package)} names {name} twice" for name in sorted(set(named)) if named.count(name) > 1
        ]
    complain(
        faults,
        "A package's docstring lists its modules in reading order, as lines `* \\`name\\`   what it is`",
    )


def test_modules_are_worth_a_file() -> None:
    faults = []
    small = {}
    for path in modules():
        lines = path.read_text().count("\n")
        is_exempt = path.name == "__main__.py" or may_have_small_modules(path.parent)
        if lines < SMALLEST_MODULE_LINES and not is_exempt:
            small[relative(path)] = lines
    faults += [f"{name} has {lines} lines" for name, lines in small.items() if name not in SMALL_MODULES]
    faults += [f"{name} is listed here, but is not small" for name in SMALL_MODULES if name not in small]
    complain(faults, f"A module of fewer than {SMALLEST_MODULE_LINES} lines joins what it belongs to")


def test_modules_of_a_layer_have_names_of_their_own() -> None:
    found: dict[tuple[str, str], list[str]] = defaultdict(list)
    apis = {path.stem for path in (ROOT / "protocol" / "messages").glob("*.py")}
    for path in modules():
        if path.stem not in apis and path.name != "__main__.py":
            found[relative(path).partition("/")[0], path.stem].append(relative(path))
    same = {f"{layer}: {name}": paths for (layer, name), paths in found.items() if len(paths) > 1}
    faults = [", ".join(paths) for key, paths in same.items() if key not in SAME_MODULE_NAMES]
    faults += [f"{key} is listed here, but no more so" for key in SAME_MODULE_NAMES if key not in same]
    complain(faults, "Two modules of one layer have the same name")


def test_classes_have_names_of_their_own() -> None:
    found: dict[str, list[str]] = defaultdict(list)
    for path in modules():
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.ClassDef):
                found[node.name].append(relative(path))
    same = {name: paths for name, paths in found.items() if len(paths) > 1}
    faults = [f"{name}: {', '.join(paths)}" for name, paths in same.items() if name not in SAME_CLASS_NAMES]
    faults += [f"{name} is listed here, but is unique" for name in SAME_CLASS_NAMES if name not in same]
    complain(faults, "Two classes of the product have the same name")


def prose(text: str) -> Iterator[tuple[int, str]]:
    """The lines of docstrings and comments, with their numbers."""
    for node in ast.walk(ast.parse(text)):
        if (
            isinstance(node, ast.Expr)
            and isinstance(node.value, ast.Constant)
            and isinstance(node.value.value, str)
        ):
            for offset, line in enumerate(node.value.value.splitlines()):
                yield node.lineno + offset, line
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def test_no_private_words_in_the_text() -> None:
    faults = [
        f"{relative(path)}:{number}: {line.strip()[:90]}"
        for path in (*modules(), *(package / "__init__.py" for package in packages()))
        for number, line in prose(path.read_text())
        if PRIVATE_WORDS.search(line)
    ]
    complain(faults, "Use the word that Kafka's documentation or everybody has for it")
