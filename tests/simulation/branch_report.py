"""From what the `coverage` package has recorded to what a person reads: decisions that only went one way.

    measured = msgspec.json.decode(text, type=JsonReport)      text: its JSON report, with contexts
    modules = [branches_of(path, source, each) for path, each in measured.files.items()]
    print("\\n".join(report(modules)))

A branch goes from a decision (`if`, `while`, `for`, `match`) to the line that comes next. An `except` clause
is a decision, too: that an error came. Conditions within one line (`a and b`, `x if c else y`,
comprehensions) are not looked at.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Final, NamedTuple

import msgspec

__all__ = [
    "IMPORTING",
    "Branch",
    "FunctionBranches",
    "JsonReport",
    "MeasuredFile",
    "ModuleBranches",
    "branches_of",
    "report",
]

IMPORTING: Final = "import"
"""The context in which modules are imported. All others are of seeds."""

_SHOWN: Final = 60
"""Characters of a line of the source."""

_Function = ast.FunctionDef | ast.AsyncFunctionDef


class MeasuredFile(msgspec.Struct, frozen=True):
    """What a JSON report of the `coverage` package says of one file. A branch to a negative line leaves the
    function. contexts: in which of them a line was executed, by its number."""

    executed_lines: list[int]
    missing_lines: list[int]
    executed_branches: list[tuple[int, int]]
    missing_branches: list[tuple[int, int]]
    contexts: dict[str, list[str]] = msgspec.field(default_factory=dict)


class JsonReport(msgspec.Struct, frozen=True):
    """A JSON report of the `coverage` package, as far as it is of use here."""

    files: dict[str, MeasuredFile]


class Branch(NamedTuple):
    """line: of the decision. to: the line that comes next; negative where the function ends."""

    line: int
    to: int


@dataclass
class FunctionBranches:
    """The branches of one function; those outside of all functions have a name in brackets.

    is_entered: whether any of its lines was executed. one_way: not reached, though the decision was made.
    behind: not reached, since something before the decision was not.
    """

    name: str
    line: int
    has_lines: bool = False
    is_entered: bool = False
    reached: list[Branch] = field(default_factory=list)
    one_way: list[Branch] = field(default_factory=list)
    behind: list[Branch] = field(default_factory=list)

    @property
    def total(self) -> int:
        return len(self.reached) + len(self.one_way) + len(self.behind)


@dataclass(frozen=True)
class ModuleBranches:
    """path: from the root of the project. of_one_seed: what only one seed has reached, and which, of the
    decisions that others have made as well."""

    path: str
    lines: Sequence[str]
    functions: Sequence[FunctionBranches]
    of_one_seed: Sequence[tuple[Branch, str]]

    @property
    def package(self) -> str:
        return self.path.rpartition("/")[0]

    @property
    def reached(self) -> int:
        return sum(len(each.reached) for each in self.functions)

    @property
    def total(self) -> int:
        return sum(each.total for each in self.functions)

    def shown(self, branch: Branch) -> str:
        """`module:line -> line`, with the text of both lines."""
        text = f"{self.path}:{branch.line} -> "
        if branch.to < 0:
            return f"{text}exit    {self._text(branch.line)}"
        return f"{text}{branch.to}    {self._text(branch.line)}  ->  {self._text(branch.to)}"

    def _text(self, line: int) -> str:
        text = self.lines[line - 1].strip()
        return text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..."


def branches_of(path: str, source: str, measured: MeasuredFile) -> ModuleBranches:
    """The branches of a module, by function. Raises SyntaxError where the source is no Python."""
    tree = ast.parse(source)
    lines = source.splitlines()
    functions = _FunctionsByLine(tree, len(lines))
    executed = frozenset(measured.executed_lines)
    for line in (*measured.executed_lines, *measured.missing_lines):
        function = functions.at(line)
        function.has_lines = True
        function.is_entered |= line in executed
    reached = {Branch(*each) for each in measured.executed_branches}
    decided_at = {
        Branch(*each): each[0] for each in (*measured.executed_branches, *measured.missing_branches)
    }
    for clause, attempt in _except_clauses(tree):
        if clause.to in executed:
            reached.add(clause)
        elif clause.to not in measured.missing_lines:
            continue  # it is excluded
        decided_at.setdefault(clause, attempt)
    for branch, decision in sorted(decided_at.items()):
        function = functions.at(branch.line)
        if branch in reached:
            function.reached.append(branch)
        elif decision in executed:
            function.one_way.append(branch)
        else:
            function.behind.append(branch)
    return ModuleBranches(path, lines, functions.all, list(_of_one_seed(reached, measured.contexts)))


def _except_clauses(tree: ast.Module) -> Iterator[tuple[Branch, int]]:
    """Each with the first line of what may fail."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try):
            for handler in node.handlers:
                yield Branch(handler.lineno, handler.body[0].lineno), node.body[0].lineno


def _of_one_seed(
    reached: Iterable[Branch], contexts: Mapping[str, Sequence[str]]
) -> Iterator[tuple[Branch, str]]:
    for branch in sorted(reached):
        deciding, those = (
            [name for name in contexts.get(str(line), ()) if name != IMPORTING]
            for line in (branch.line, branch.to)
        )
        if len(those) == 1 and len(deciding) > 1:
            yield branch, those[0]


class _FunctionsByLine(ast.NodeVisitor):
    """The innermost function around each line. Its `def` and its decorators belong to what is around it, as
    they are executed there."""

    def __init__(self, tree: ast.Module, lines: int) -> None:
        module = FunctionBranches("(module)", 1)
        self.all = [module]
        self._by_line = [module] * (lines + 1)
        self._names: list[str] = []
        self.visit(tree)

    def at(self, line: int) -> FunctionBranches:
        return self._by_line[line]

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_within(node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> None:
        self._visit_function(node)

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> None:
        self._visit_function(node)

    def _visit_function(self, node: _Function) -> None:
        function = FunctionBranches(".".join([*self._names, node.name]), node.lineno)
        self.all.append(function)
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1):
            self._by_line[line] = function
        self._visit_within(node)

    def _visit_within(self, node: ast.ClassDef | _Function) -> None:
        self._names.append(node.name)
        self.generic_visit(node)
        self._names.pop()


def report(modules: Iterable[ModuleBranches]) -> list[str]:
    """The lines of the whole report: numbers, then what was not reached."""
    modules = sorted(modules, key=lambda each: (each.package, each.path))
    lines = ["Branches reached:", ""]
    for package, some in groupby(modules, key=lambda each: each.package):
        inside = list(some)
        lines.append(_counted(package, inside))
        lines += [_counted(f"    {each.path.rpartition('/')[2]}", [each]) for each in inside if each.total]
    lines += [_counted("all", modules), ""]
    lines += ["Decisions that only ever went one way, by what no seed has reached:"]
    for module in modules:
        lines += _one_way(module)
    lines += ["", "Functions that no seed has entered:", ""]
    for module in modules:
        lines += _not_entered(module)
    lines += ["", "Reached by one seed alone, though others have made the decision as well:", ""]
    for module in modules:
        lines += [f"{module.shown(branch)}    ({seed})" for branch, seed in module.of_one_seed]
    return lines


def _counted(name: str, modules: Sequence[ModuleBranches]) -> str:
    reached, total = sum(each.reached for each in modules), sum(each.total for each in modules)
    return f"{name:<44}{reached:>6,} of {total:>6,}{100 * reached // max(total, 1):>5} %"


def _one_way(module: ModuleBranches) -> list[str]:
    lines = []
    for function in module.functions:
        if function.one_way:
            behind = f", and {len(function.behind)} behind them" if function.behind else ""
            lines += ["", f"{module.path} {function.name}{behind}"]
            lines += [f"  {module.shown(branch)}" for branch in function.one_way]
    return lines


def _not_entered(module: ModuleBranches) -> list[str]:
    by_class: dict[str, list[str]] = defaultdict(list)
    for function in module.functions:
        if function.has_lines and not function.is_entered:
            owner, _, name = function.name.rpartition(".")
            by_class[owner].append(f"{name} ({function.total})" if function.total else name)
    return [
        f"{module.path} {f'{owner}: ' if owner else ''}{', '.join(names)}"
        for owner, names in by_class.items()
    ]
