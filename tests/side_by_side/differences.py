"""Where Barnabas answers otherwise, and stays so: for each case the reason, and what may differ.

`only` must match every line that one side has and the other has not (as in a diff): whatever else comes to
differ in such a case fails, and so does an entry whose case no longer differs.
The README's table of differences has these reasons, word for word.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple


class Difference(NamedTuple):
    case: str
    reason: str
    only: str


NOT_YET: Final = "what is not served yet is not advertised, and Java's clients say so at once"
LEVELS: Final = (
    "features are those that work here: metadata.version, kraft.version, eligible.leader.replicas.version, "
    "group.version and transaction.version"
)
LOGGERS: Final = "loggers have the names of Barnabas's modules; only root is called the same"
OUR_WORDS: Final = (
    "the same rows in words of our own, by intent; each also says if its config has no effect here yet"
)
OUR_SETTINGS: Final = "Barnabas has settings of its own, all called barnabas.…"

DIFFERENCES: Final = (
    Difference("cluster: broker api versions", NOT_YET, r"\t\w+\(\d+\): "),
    Difference("cluster: features", LEVELS, r"Feature: (share|streams)\."),
    Difference("cluster: describe features", LEVELS, r"(share|streams)\.\S+ = "),
    Difference(
        "topic configs: a topic's configs with documentation",
        OUR_WORDS,
        r"documentation of [a-z0-9.]+: (?!null$).",
    ),
    Difference("broker configs: describe a broker, all", OUR_SETTINGS, r"  barnabas\."),
    Difference("broker configs: a broker's sources", OUR_SETTINGS, r"barnabas\."),
    Difference("broker configs: a broker's secrets", OUR_SETTINGS, r"barnabas\."),
    Difference("other configs: a logger's level", LOGGERS, ""),
    Difference("other configs: a logger's bad level", LOGGERS, ""),
    Difference("other configs: a logger's level taken back", LOGGERS, ""),
    Difference(
        "later parts: acls", NOT_YET, ".*(No Authorizer is configured|does not support DESCRIBE_ACLS)"
    ),
    Difference("later parts: quotas", NOT_YET, ""),
    Difference("later parts: users", NOT_YET, ""),
    Difference("later parts: a quota", NOT_YET, ""),
    Difference("later parts: delegation tokens", NOT_YET, ""),
)


def beyond(difference: Difference, lines: list[str]) -> list[str]:
    """Of a diff's lines those that the difference does not explain."""
    return [line for line in lines if not re.match(difference.only, line[1:])]
