"""Transcripts: stories of a quorum as text, each command with what it must print.

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

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

RULE = "----"


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
