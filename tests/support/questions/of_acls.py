"""Questions about access control entries, to a broker without an authorizer: each is told so."""

from __future__ import annotations

from typing import Final

from protocol.codec.message import Message
from protocol.messages.create_acls import CreateAclsRequest
from protocol.messages.delete_acls import DeleteAclsRequest
from protocol.messages.describe_acls import DescribeAclsRequest
from protocol.registry import ApiKey
from tests.support.questions.question import Case, World

K: Final = ApiKey

TOPIC: Final = 2
ANY, LITERAL, PREFIXED = 1, 3, 4
READ: Final = 3
ALLOW: Final = 3


def _create(world: World, version: int) -> Message:
    entry = CreateAclsRequest.AclCreation(TOPIC, "one", LITERAL, "User:somebody", "*", READ, ALLOW)
    return CreateAclsRequest([entry])


def _delete(world: World, version: int) -> Message:
    meant = DeleteAclsRequest.DeleteAclsFilter(TOPIC, "one", LITERAL, None, None, ANY, ANY)
    return DeleteAclsRequest([meant])


def _describe(world: World, version: int) -> Message:
    return DescribeAclsRequest(TOPIC, "one", PREFIXED, None, None, ANY, ANY)


CASES: Final = [
    Case("acls, one entry", K.CREATE_ACLS, _create),
    Case("acls, all of a topic go", K.DELETE_ACLS, _delete),
    Case("acls, the prefixed ones", K.DESCRIBE_ACLS, _describe),
]
