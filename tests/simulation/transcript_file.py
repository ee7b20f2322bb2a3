"""Transcripts: what happens to a quorum, as text, each command with what it must print.

    # A voter gives its vote of an epoch to one candidate.      a comment: the rule in plain words
    # rules: raft-5.2-one-vote, kip-595-vote                    names from the index, checked to be complete

    quorum voters=2                                             a command: a verb, plain words, key=value
    ----
    n1  Unattached of epoch 0                                   what it prints; an empty line ends it
    n2  Unattached of epoch 0

The format is ours; the idea is that of the scenario tests of etcd's raft. A file is read into blocks, each
command is run, and its output compared; with BARNABAS_REWRITE_TRANSCRIPTS=1 the file is written anew
instead, to be reviewed as a diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, Protocol

RULE: Final = "----"
REWRITE: Final = "BARNABAS_REWRITE_TRANSCRIPTS"


@dataclass
class Command:
    """One block of a transcript."""

    comments: list[str] = field(default_factory=list)
    """The lines before it as they stand, empty ones too."""
    line: str = ""
    line_number: int = 0
    expected: list[str] = field(default_factory=list)

    @property
    def verb(self) -> str:
        return self.line.split()[0]

    @property
    def words(self) -> list[str]:
        """What follows the verb and has no `=`."""
        return [word for word in self.line.split()[1:] if "=" not in word]

    @property
    def options(self) -> dict[str, str]:
        return dict(word.split("=", 1) for word in self.line.split()[1:] if "=" in word)


class MalformedTranscript(Exception):
    """The file, the line, and what is wrong with it."""


class Scene(Protocol):
    """What a transcript plays with, such as a quorum."""

    def run_command(self, command: Command) -> list[str]:
        """Does what the command says; the lines that it prints."""
        ...


@dataclass
class Transcript:
    path: Path
    commands: list[Command]
    ending: list[str]
    """Comments behind the last command."""

    @property
    def rules(self) -> list[str]:
        """The rules that the file says it shows, in order."""
        comments = [line for command in self.commands for line in command.comments] + self.ending
        return [
            rule.strip()
            for line in comments
            if line.startswith("# rules:")
            for rule in line.removeprefix("# rules:").split(",")
        ]

    def text(self) -> str:
        lines = []
        for command in self.commands:
            lines += [*command.comments, command.line, RULE, *command.expected, ""]
        return "\n".join([*lines, *self.ending]).rstrip("\n") + "\n"


def read_transcript(path: Path) -> Transcript:
    commands: list[Command] = []
    comments: list[str] = []
    lines = path.read_text().splitlines()
    number = 0
    while number < len(lines):
        line = lines[number]
        number += 1
        if not line.strip() or line.startswith("#"):
            comments.append(line)
            continue
        if number >= len(lines) or lines[number] != RULE:
            raise MalformedTranscript(f"{path.name}:{number}: after a command comes a line {RULE}")
        command = Command(comments, line, number)
        comments = []
        number += 1
        while number < len(lines) and lines[number].strip():
            command.expected.append(lines[number])
            number += 1
        number += 1
        commands.append(command)
    return Transcript(path, commands, comments)


def run_transcript(transcript: Transcript, run: Callable[[Command], list[str]]) -> str:
    """Runs every command and returns the transcript's text with what was printed instead of what was
    expected."""
    printed = [
        Command(command.comments, command.line, command.line_number, run(command))
        for command in transcript.commands
    ]
    return Transcript(transcript.path, printed, transcript.ending).text()


def play(transcript: Transcript, first_verb: str, begin: Callable[[Command], Scene]) -> str:
    """As `run_transcript`. A command with `first_verb` begins a scene and prints nothing; the scene runs the
    commands behind it."""
    scene: Scene | None = None

    def run(command: Command) -> list[str]:
        nonlocal scene
        if command.verb == first_verb:
            scene = begin(command)
            return []
        assert scene is not None, f"line {command.line_number}: first comes a {first_verb}"
        return scene.run_command(command)

    return run_transcript(transcript, run)


def compare_or_rewrite(path: Path, first_verb: str, begin: Callable[[Command], Scene]) -> None:
    """Plays the transcript in a file. It must print what the file says, or the file is written anew."""
    played = play(read_transcript(path), first_verb, begin)
    if os.environ.get(REWRITE):
        path.write_text(played)
    else:
        assert played == path.read_text()


def check_rules(files: Iterable[Path], index: Iterable[str]) -> None:
    """Every rule of the index is shown in some file, and no file speaks of another rule."""
    shown = {rule for path in files for rule in read_transcript(path).rules}
    assert sorted(set(index) - shown) == [], "rules without a transcript"
    assert sorted(shown - set(index)) == [], "transcripts of unknown rules"
