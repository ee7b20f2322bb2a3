"""What Barnabas does not serve yet: asked, so that the table of differences says what a user gets instead;
and ACLs, where no authorizer is configured."""

from __future__ import annotations

from typing import Final

from tests.side_by_side.cases import Case, tool

CASES: Final[tuple[Case, ...]] = (
    tool("acls", "kafka-acls --list"),
    tool("users", "kafka-configs --describe --entity-type users --entity-name one"),
    tool("delegation tokens", "kafka-delegation-tokens --describe --command-config {settings}", settings=""),
    tool("share groups", "kafka-share-groups --list"),
    tool("streams groups", "kafka-streams-groups --list"),
)
