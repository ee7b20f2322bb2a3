"""The house keeps itself tidy. Each rule says what is wrong, where, and what to do about it.

These tests read the source as text and syntax tree; they import nothing of it.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Final

import pytest

ROOT: Final = Path(__file__).resolve().parents[2]
PRODUCT: Final = ("broker", "config", "controller", "protocol", "spark_jobs", "storage")
PURE: Final = (
    "config",
    "controller",
    "protocol",
    "storage",
    "broker/coordinator",
    "broker/handlers",
    "broker/replication",
)

MODULE_LINES: Final = 600
FUNCTION_LINES: Final = 70
VAGUE_NAMES: Final = frozenset(
    {"utils", "util", "common", "helpers", "helper", "misc", "base", "stuff", "manager"}
)
MUTABLE_CALLS: Final = frozenset(
    {"dict", "list", "set", "defaultdict", "deque", "OrderedDict", "Counter", "bytearray"}
)
UNFINISHED: Final = re.compile(r"\b(TODO|FIXME|XXX|HACK)\b")
WORKPLACE: Final = re.compile(
    r"/tmp/bn|/work/|\bsubagent|\bhelper-\d|pypi\.org/simple|repo1\.maven", re.IGNORECASE
)


@cache
def tracked() -> tuple[Path, ...]:
    """All files that git knows or would take."""
    listing = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    if listing.returncode == 0:
        return tuple(ROOT / line for line in listing.stdout.splitlines() if (ROOT / line).is_file())
    return tuple(path for path in ROOT.rglob("*") if path.is_file() and ".venv" not in path.parts)


def python_files(*folders: str) -> Iterator[tuple[Path, str, ast.Module]]:
    for path in tracked():
        relative = path.relative_to(ROOT).as_posix()
        if path.suffix == ".py" and relative.startswith(tuple(f"{folder}/" for folder in folders)):
            text = path.read_text()
            yield path.relative_to(ROOT), text, ast.parse(text)


def complain(faults: list[str], remedy: str) -> None:
    if faults:
        pytest.fail("\n  ".join([f"{remedy}:", *faults]), pytrace=False)


def test_modules_can_be_read_in_one_sitting() -> None:
    faults = [
        f"{path} has {text.count(chr(10))} lines"
        for path, text, _ in python_files(*PRODUCT, "tests")
        if text.count("\n") > MODULE_LINES
    ]
    complain(faults, f"A module has at most {MODULE_LINES} lines; find the two things in it and part them")


def test_functions_fit_on_a_screen() -> None:
    faults = []
    for path, _, tree in python_files(*PRODUCT, "tests"):
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                length = (node.end_lineno or node.lineno) - node.lineno + 1
                if length > FUNCTION_LINES:
                    faults.append(f"{path}:{node.lineno} {node.name} has {length} lines")
    complain(faults, f"A function has at most {FUNCTION_LINES} lines; name its steps")


DELIVERERS: Final = frozenset(
    {
        "broker/dispatch/long_request.py",
        "broker/dispatch/waiting.py",
        "broker/controller_channel/topic_creation.py",
        "broker/simulation/quorum/driver_machine.py",
        "controller/policies.py",
        "protocol/serving/pending.py",
    }
)
"""Who subscribes to a pending answer with a function that cannot raise."""


def test_answers_are_made_of_others_by_then() -> None:
    """What `on_complete` calls runs in the turn of whoever completes, a commit or a timer: an exception of it
    would be theirs."""
    faults = [
        f"{path}:{node.lineno}"
        for path, _, tree in python_files(*PRODUCT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr == "on_complete"
        and path.as_posix() not in DELIVERERS
    ]
    complain(faults, "Make the answer with `pending.then(...)`")


def test_no_drawer_for_odds_and_ends() -> None:
    faults = [str(path) for path, _, _ in python_files(*PRODUCT, "tests") if path.stem in VAGUE_NAMES]
    complain(faults, "A module is named after what it holds; these names hold anything")


def test_nothing_is_left_for_later() -> None:
    faults = [
        f"{path}:{number}: {line.strip()}"
        for path, text, _ in python_files(*PRODUCT, "tests")
        if path.as_posix() != "tests/tidy/test_house.py"
        for number, line in enumerate(text.splitlines(), 1)
        if UNFINISHED.search(line)
    ]
    complain(faults, "Do it now, or open an issue; the code is not a notebook")


def test_packages_introduce_themselves() -> None:
    faults = []
    for path, _, tree in python_files(*PRODUCT):
        if path.name != "__init__.py":
            continue
        if ast.get_docstring(tree) is None:
            faults.append(f"{path} says nothing")
        elif len(tree.body) > 1:
            faults.append(f"{path} does more than speak (line {tree.body[1].lineno})")
    complain(
        faults,
        "A package's __init__ holds its docstring: what it is, its parts in reading order, who may import it",
    )


def test_modules_tell_their_theory() -> None:
    faults = [str(path) for path, _, tree in python_files(*PRODUCT) if ast.get_docstring(tree) is None]
    complain(faults, "A file's head tells what it is for")


def test_no_mutable_globals() -> None:
    """A process can hold several nodes, so nothing that changes belongs to a module."""
    faults = []
    for path, _, tree in python_files(*PRODUCT):
        for node in tree.body:
            value = node.value if isinstance(node, ast.Assign | ast.AnnAssign) else None
            if value is None or _is_dunder(node):
                continue
            if isinstance(
                value, ast.Dict | ast.List | ast.Set | ast.DictComp | ast.ListComp | ast.SetComp
            ) or (
                isinstance(value, ast.Call)
                and isinstance(value.func, ast.Name)
                and value.func.id in MUTABLE_CALLS
            ):
                faults.append(f"{path}:{node.lineno}")
    complain(
        faults, "Make it a tuple, a frozenset or a MappingProxyType, or give it to an object that owns it"
    )


def _is_dunder(node: ast.stmt) -> bool:
    targets = (
        node.targets
        if isinstance(node, ast.Assign)
        else [node.target]
        if isinstance(node, ast.AnnAssign)
        else []
    )
    return any(isinstance(target, ast.Name) and target.id.startswith("__") for target in targets)


def test_no_asserts_in_the_product() -> None:
    """`python -O` removes them; an invariant must hold in production too."""
    faults = [
        f"{path}:{node.lineno}"
        for path, _, tree in python_files(*PRODUCT)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assert)
    ]
    complain(faults, "Use protocol.errors.invariant, which stays and prints the numbers")


def test_replication_gives_values_and_handlers_shape_them() -> None:
    faults = [
        f"{path}:{node.lineno} {name.name}"
        for path, _, tree in python_files("broker/replication")
        if "fetcher" not in path.parts  # it asks other brokers, and reads what they answer
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("protocol.messages")
        for name in node.names
        if name.name.endswith("Response")
    ]
    complain(faults, "Return a value, and make the response of it in broker/handlers")


def test_pure_code_iterates_over_no_set() -> None:
    """The order of a set depends on the hash seed: a simulation could not be repeated."""
    faults = []
    for path, _, tree in python_files(*PURE):
        for node in ast.walk(tree):
            iterated = node.iter if isinstance(node, ast.For | ast.comprehension) else None
            if iterated is not None and _is_set(iterated):
                faults.append(f"{path}:{iterated.lineno}")
    complain(faults, "Sort it, or keep a dict or a tuple")


def _is_set(iterated: ast.expr) -> bool:
    """Whether an expression makes a set, as far as it can be seen without types."""
    if isinstance(iterated, ast.BinOp):
        return any(
            isinstance(side, ast.Call) and isinstance(side.func, ast.Attribute) and side.func.attr == "keys"
            for side in (iterated.left, iterated.right)
        )
    if isinstance(iterated, ast.Call):
        return isinstance(iterated.func, ast.Name) and iterated.func.id in {"set", "frozenset"}
    return isinstance(iterated, ast.Set | ast.SetComp)


def test_loggers_have_names_that_stay() -> None:
    """Operators set levels by these names, and `barnabas` stands above them; a module's own name is another
    one in the wheel."""
    faults = []
    for path, _, tree in python_files(*PRODUCT):
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "logging.getLogger" and node.args:
                name = ast.unparse(node.args[0])
                if name == "__name__" or (name[0] in "'\"" and not name[1:].startswith("barnabas")):
                    faults.append(f"{path}:{node.lineno} {name}")
    complain(faults, 'Name it "barnabas.…", as the other modules of its part are named')


def test_tests_are_found() -> None:
    """A file of tests that pytest does not collect proves nothing."""
    faults = []
    for path, _, tree in python_files("tests"):
        tests = [
            node
            for node in ast.walk(tree)
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_")
        ]
        collected = path.name.startswith("test_")
        if tests and not collected:
            faults.append(f"{path} has tests, but its name does not begin with test_")
    complain(faults, "Rename the file")


def test_the_text_speaks_of_the_project_alone() -> None:
    faults = []
    for path in tracked():
        if (
            path.suffix not in {".py", ".md", ".toml", ".yaml", ".yml", ".sh", ".properties", ""}
            or path.name == "LICENSE"
        ):
            continue
        if path == Path(__file__).resolve():
            continue
        try:
            text = path.read_text()
        except UnicodeDecodeError:
            continue
        faults += [
            f"{path.relative_to(ROOT)}:{number}: {line.strip()[:90]}"
            for number, line in enumerate(text.splitlines(), 1)
            if WORKPLACE.search(line)
        ]
    complain(faults, "Nobody who reads this knows the place where it was written")
