"""Who may do what: the rules of Kafka's StandardAuthorizer, one by one and against a dumb model."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from itertools import count
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broker.security.audit_log import LINES_OF_ATTEMPT, LINES_OF_PRINCIPAL, LINES_PER_SECOND
from broker.security.standard_authorizer import StandardAuthorizer
from controller.metadata.image.acls import (
    ALLOW,
    DENY,
    LITERAL,
    PREFIXED,
    Acl,
    AclPattern,
    AclsDelta,
    AclsImage,
    ByPrincipal,
)
from protocol.errors import ErrorCode
from protocol.messages.heartbeat import HeartbeatRequest, HeartbeatResponse
from protocol.registry import ApiKey
from protocol.serving.authorization import AuthorizerNotReady, Operation, ResourceType
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Principal, Session
from tests.support.rigs.desk import Desk

TOPIC, GROUP, CLUSTER = ResourceType.TOPIC, ResourceType.GROUP, ResourceType.CLUSTER
READ, WRITE, DESCRIBE, ALL = Operation.READ, Operation.WRITE, Operation.DESCRIBE, Operation.ALL
NUMBERS = count(1)


def acl(
    name: str = "t",
    operation: int = READ,
    permission: int = ALLOW,
    *,
    who: str = "User:ann",
    host: str = "*",
    pattern: int = LITERAL,
    resource: int = TOPIC,
) -> Acl:
    acl_id = next(NUMBERS).to_bytes(16, "big")
    return Acl(acl_id, resource, name, pattern, who, host, operation, permission)


def image(entries: Sequence[Acl]) -> AclsImage:
    delta = AclsDelta(AclsImage())
    for each in entries:
        delta.add(each)
    return delta.apply()


class Door:
    """An authorizer, and one client who asks."""

    def __init__(
        self, *entries: Acl, is_loaded: bool = True, is_open: bool = False, principal: str = "ann"
    ) -> None:
        self.acls = image(entries)
        self.is_loaded = is_loaded
        self.authorizer = StandardAuthorizer(
            lambda: self.acls,
            lambda: self.is_loaded,
            super_users=frozenset({"User:root"}),
            allows_everyone_without_acls=is_open,
        )
        self.session = Session("1", "PLAINTEXT", "10.0.0.1", Principal(principal))
        self.now_ms = 0

    def context(self) -> RequestContext:
        return RequestContext(ApiKey.FETCH, 17, 1, "client", self.session, self.now_ms, self.authorizer)

    def may(self, operation: Operation, name: str = "t", resource: ResourceType = TOPIC) -> bool:
        return self.context().allows(operation, resource, name)

    def all_allowed(self, name: str = "t") -> set[str]:
        return {each.name for each in Operation if each is not ALL and self.may(each, name)}


def test_nothing_is_allowed_without_an_entry_unless_one_says_so() -> None:
    assert Door().all_allowed() == set()
    everybody = Door(acl("other", who="User:bob"), is_open=True)
    assert everybody.may(READ, "t")
    assert everybody.may(READ, "other", GROUP)
    assert not Door(acl(who="User:bob"), is_open=True).may(READ), "a resource with entries is not open"
    assert not Door(acl("*", who="User:bob"), is_open=True).may(READ), "nor one that a star is about"
    assert not Door(acl("", who="User:bob", pattern=PREFIXED), is_open=True).may(READ)


def test_super_users_may_do_everything_and_are_not_stopped_by_a_denial() -> None:
    root = Door(acl(who="User:root", operation=ALL, permission=DENY), is_loaded=False, principal="root")
    assert root.may(READ)
    assert root.context().allows_any(WRITE, TOPIC)


def test_a_node_speaks_to_itself() -> None:
    door = Door(is_loaded=False)
    door.session.is_in_process = True
    assert door.may(Operation.CLUSTER_ACTION, "kafka-cluster", CLUSTER)


def test_before_the_entries_are_loaded_nobody_gets_an_answer() -> None:
    door = Door(acl(), is_loaded=False, is_open=True)
    with pytest.raises(AuthorizerNotReady):
        door.may(READ)
    with pytest.raises(AuthorizerNotReady):
        door.context().allows_any(WRITE, TOPIC)
    door.is_loaded = True
    assert door.may(READ)
    door.is_loaded = False
    assert door.may(READ), "who has caught up once goes on by what he knows"


@pytest.mark.parametrize(
    ("operation", "allowed"),
    [
        (READ, {"READ", "DESCRIBE"}),
        (WRITE, {"WRITE", "DESCRIBE"}),
        (Operation.DELETE, {"DELETE", "DESCRIBE"}),
        (Operation.ALTER, {"ALTER", "DESCRIBE"}),
        (Operation.CREATE, {"CREATE"}),
        (DESCRIBE, {"DESCRIBE"}),
        (Operation.ALTER_CONFIGS, {"ALTER_CONFIGS", "DESCRIBE_CONFIGS"}),
        (Operation.DESCRIBE_CONFIGS, {"DESCRIBE_CONFIGS"}),
        (ALL, {each.name for each in Operation} - {"ALL"}),
    ],
)
def test_what_an_entry_allows(operation: Operation, allowed: set[str]) -> None:
    assert Door(acl(operation=operation)).all_allowed() == allowed


def test_a_denial_wins_and_denies_only_what_it_names() -> None:
    door = Door(acl(operation=ALL), acl(operation=READ, permission=DENY))
    assert not door.may(READ)
    assert door.may(DESCRIBE)
    assert door.may(WRITE)
    assert Door(acl(operation=ALL), acl(operation=ALL, permission=DENY)).all_allowed() == set()
    for stronger in (acl("*", permission=DENY), acl("t", permission=DENY, pattern=PREFIXED)):
        assert not Door(acl(), stronger).may(READ)


def test_whom_and_where_from() -> None:
    assert Door(acl(who="User:*")).may(READ)
    assert not Door(acl(who="Group:ann")).may(READ)
    assert not Door(acl(who="User:Ann")).may(READ)
    assert Door(acl(host="10.0.0.1")).may(READ)
    assert not Door(acl(host="10.0.0.2")).may(READ)
    assert not Door(acl(), acl(host="10.0.0.1", permission=DENY, who="User:*")).may(READ)


def test_patterns() -> None:
    door = Door(acl("or", pattern=PREFIXED), acl("*", WRITE), acl("*x", pattern=PREFIXED))
    assert [door.may(READ, name) for name in ("or", "orders", "o", "t", "*x1")] == [
        True, True, False, False, True,
    ]  # fmt: skip
    assert door.may(WRITE, "t")
    assert not door.may(WRITE, "t", GROUP)


ENTRIES = st.lists(
    st.builds(
        acl,
        name=st.sampled_from(["*", "a", "ab", "b"]),
        operation=st.sampled_from([ALL, READ, WRITE, DESCRIBE, Operation.ALTER_CONFIGS]),
        permission=st.sampled_from([ALLOW, ALLOW, DENY]),
        who=st.sampled_from(["User:ann", "User:*", "User:bob"]),
        host=st.sampled_from(["*", "10.0.0.1", "10.0.0.9"]),
        pattern=st.sampled_from([LITERAL, PREFIXED]),
        resource=st.sampled_from([TOPIC, GROUP]),
    ),
    max_size=7,
)


def expected(entries: Sequence[Acl], operation: Operation, name: str, *, is_open: bool) -> bool:
    """The rules as Kafka's documentation tells them, by a walk over all entries."""
    about = [
        each
        for each in entries
        if each.resource_type == TOPIC
        and (
            name.startswith(each.resource_name)
            if each.pattern_type == PREFIXED
            else each.resource_name in ("*", name)
        )
    ]
    mine = [
        each for each in about if each.principal in ("User:ann", "User:*") and each.host in ("*", "10.0.0.1")
    ]
    if any(each.permission_type == DENY and each.operation in (ALL, operation) for each in mine):
        return False
    implying = {
        DESCRIBE: {READ, WRITE, Operation.DELETE, Operation.ALTER},
        Operation.DESCRIBE_CONFIGS: {Operation.ALTER_CONFIGS},
    }
    enough = {ALL, operation} | implying.get(operation, set())
    if any(each.permission_type == ALLOW and each.operation in enough for each in mine):
        return True
    return is_open and not about


@given(ENTRIES, st.sampled_from([each for each in Operation if each is not ALL]), st.booleans())
def test_against_a_walk_over_all_entries(entries: list[Acl], operation: Operation, is_open: bool) -> None:
    door = Door(*entries, is_open=is_open)
    for name in ("a", "ab", "abc", "b", "c", "*"):
        assert door.may(operation, name) == expected(entries, operation, name, is_open=is_open), name


@given(ENTRIES)
def test_whoever_may_write_somewhere_may_be_idempotent(entries: list[Acl]) -> None:
    """Kafka does not promise to find every such topic, but never finds one where there is none."""
    door = Door(*entries)
    names = [first + second for first in ("a", "ab", "abz", "b", "bz", "z") for second in ("", "q")]
    if not door.context().allows_any(WRITE, TOPIC):
        return
    literal = {each.resource_name for each in entries}
    assert any(expected(entries, WRITE, name, is_open=False) for name in (*names, *literal))


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([acl("t", WRITE)], True),
        ([acl("t", DESCRIBE)], False),
        ([acl("t", ALL)], True),
        ([acl("t", WRITE, who="User:bob")], False),
        ([acl("t", WRITE, host="10.0.0.2")], False),
        ([acl("t", WRITE), acl("t", WRITE, DENY)], False),
        ([acl("t", WRITE), acl("*", WRITE, DENY)], False),
        ([acl("topic", WRITE), acl("to", WRITE, DENY, pattern=PREFIXED)], False),
        ([acl("to", WRITE, pattern=PREFIXED), acl("topic", WRITE, DENY, pattern=PREFIXED)], True),
        ([acl("to", WRITE, pattern=PREFIXED), acl("to", WRITE, DENY)], True),
        ([acl("t", WRITE, resource=GROUP)], False),
    ],
)
def test_the_right_to_write_anywhere(entries: list[Acl], allowed: bool) -> None:
    assert Door(*entries).context().allows_any(WRITE, TOPIC) is allowed


def test_the_right_to_write_anywhere_is_found_without_a_walk_over_all_entries() -> None:
    door = Door(*[acl(f"t{number}", WRITE, who=f"User:u{number}") for number in range(50)], acl("t", WRITE))

    class Counted(dict[AclPattern, ByPrincipal]):
        asked = 0

        def __getitem__(self, pattern: AclPattern) -> ByPrincipal:
            Counted.asked += 1
            return super().__getitem__(pattern)

        def items(self) -> Any:
            Counted.asked += len(self)
            return super().items()

    door.acls = msgspec.structs.replace(door.acls, by_pattern=Counted(door.acls.by_pattern))
    assert door.context().allows_any(WRITE, TOPIC)
    assert Counted.asked == 1


@pytest.mark.parametrize("permission", [0, 1, DENY, 9])
def test_whatever_does_not_allow_denies(permission: int) -> None:
    """As Kafka has it of an entry whose permission nobody knows."""
    door = Door(acl(operation=ALL), acl(operation=READ, permission=permission))
    assert not door.may(READ)
    assert door.may(WRITE)
    assert not Door(acl(permission=permission)).may(READ)
    assert not Door(acl("t", WRITE, permission)).context().allows_any(WRITE, TOPIC)


def test_denials_are_logged_in_kafka_s_words(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.authorizer")
    denied = acl("orders", permission=DENY)
    door = Door(denied, acl("t"))
    door.may(READ, "orders")
    door.may(WRITE, "a\nb")
    door.may(READ, "t")
    door.context().may_see(READ, TOPIC, "orders")
    first, second = [record.getMessage() for record in caplog.records]
    assert first == (
        "Principal = User:ann is Denied operation = READ from host = 10.0.0.1 on resource = "
        "Topic:LITERAL:orders for request = Fetch with resourceRefCount = 1 based on rule "
        "MatchingAcl(acl=StandardAcl(resourceType=TOPIC, resourceName=orders, patternType=LITERAL, "
        "principal=User:ann, host=*, operation=READ, permissionType=DENY))"
    )
    assert r"Topic:LITERAL:a\nb" in second
    assert second.endswith("based on rule DefaultDeny")


def test_what_is_allowed_is_logged_at_debug(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "barnabas.authorizer")
    Door(acl()).may(READ)
    assert "is Allowed operation = READ" in caplog.text


def test_a_client_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.authorizer")
    door = Door()
    for _ in range(LINES_OF_ATTEMPT + 7):
        door.may(READ, "n" * 30_000)
    assert len(caplog.records) == LINES_OF_ATTEMPT
    assert max(len(record.getMessage()) for record in caplog.records) < 600
    door.now_ms = 1000
    door.may(READ)
    assert caplog.records[-1].getMessage().endswith("(7 such lines were left out before)")


def test_a_client_that_tries_everything_has_a_bound_too(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.authorizer")
    door = Door()
    for _ in range(LINES_OF_PRINCIPAL):
        door.all_allowed()
    assert len(caplog.records) == LINES_OF_PRINCIPAL


def test_many_clients_cannot_fill_the_log(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "barnabas.authorizer")
    door = Door()
    for number in range(LINES_PER_SECOND + 9):
        door.session.principal = Principal(f"u{number}")
        door.may(READ)
    assert len(caplog.records) == LINES_PER_SECOND
    door.now_ms = 1000
    door.may(READ)
    assert caplog.records[-1].getMessage().endswith("(9 such lines were left out before)")


def test_nobody_hides_what_another_one_does(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "barnabas.authorizer")
    door = Door(acl("t", who="User:*"))
    for number in range(5 * LINES_PER_SECOND):
        door.may(READ, f"noise-{number}")
    door.may(Operation.ALTER, "kafka-cluster", CLUSTER)
    assert "Principal = User:ann is Denied operation = ALTER" in caplog.text, "nor what it does itself"
    door.session.principal = Principal("mallory")
    door.may(Operation.ALTER, "kafka-cluster", CLUSTER)
    assert "Principal = User:mallory is Denied operation = ALTER" in caplog.text


def test_what_is_allowed_hides_no_denial(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG, "barnabas.authorizer")
    door = Door(acl())
    for _ in range(5 * LINES_PER_SECOND):
        door.may(READ)
    door.may(WRITE, "salaries")
    last = caplog.records[-1].getMessage()
    assert "is Denied operation = WRITE" in last
    assert "left out" not in last, "a denial says of denials only"
    door.now_ms = 1000
    door.may(READ)
    left_out = 5 * LINES_PER_SECOND - LINES_OF_ATTEMPT
    assert caplog.records[-1].getMessage().endswith(f"({left_out} such lines were left out before)")


def test_who_comes_before_the_entries_are_loaded_is_told_to_try_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """With UNKNOWN_SERVER_ERROR, as by Apache Kafka; a denial would be the end for its quorum's replicas."""
    desk = Desk(authorizer=Door(is_loaded=False, is_open=True).authorizer)
    desk.behaviours[ApiKey.HEARTBEAT] = lambda context, request: HeartbeatResponse(
        error_code=0 if context.allows(READ, GROUP, "g") else 30
    )
    for _ in range(2):
        desk.ask(HeartbeatRequest("g"), 4)
        assert desk.answer(HeartbeatResponse, 4)[1].error_code == ErrorCode.UNKNOWN_SERVER_ERROR
    assert desk.dispatcher.metrics.failures == 0
    (told,) = caplog.records
    assert "User:ANONYMOUS asks before the access control entries are loaded" in told.getMessage()
