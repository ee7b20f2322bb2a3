"""SCRAM credentials: set, deleted and described, and those with which a cluster begins."""

from __future__ import annotations

import base64
import io
from pathlib import Path

import pytest

from broker.ports.files import RealFiles
from controller.first_credentials import MalformedCredential, parse_first_credentials
from controller.format import FormatRefused, Formatter, read_bootstrap_records
from controller.metadata.image.cluster_image import ClusterImage, image_records
from controller.metadata.image.scram import credential_record
from controller.metadata.snapshots import BOOTSTRAP_FILE, read_snapshot
from protocol.errors import ErrorCode
from protocol.messages.alter_user_scram_credentials import AlterUserScramCredentialsRequest
from protocol.messages.describe_user_scram_credentials import (
    DescribeUserScramCredentialsRequest,
    DescribeUserScramCredentialsResponse,
)
from protocol.metadata_log.security import UserScramCredentialRecord
from protocol.registry import ApiKey
from protocol.scram import MECHANISMS, new_credential, salted_password
from protocol.serving.authorization import CLUSTER_NAME, Operation, ResourceType
from storage.memory_files import MemoryFiles
from tests.support.genuine.tool_server import ToolServer
from tests.support.rigs.controllers import CLUSTER_ID, ControllerFixture, SeededRandomSource, one_node_config
from tests.support.rigs.hand_clock import HandClock

SHA_256, SHA_512 = MECHANISMS["SCRAM-SHA-256"], MECHANISMS["SCRAM-SHA-512"]
SALT = b"0123456789"

Deletion = AlterUserScramCredentialsRequest.ScramCredentialDeletion
Upsertion = AlterUserScramCredentialsRequest.ScramCredentialUpsertion


def upsertion(user: str, mechanism: int = 1, iterations: int = 4096) -> Upsertion:
    return Upsertion(user, mechanism, iterations, SALT, b"salted")


def alter(
    controller: ControllerFixture, upsertions: list[Upsertion], deletions: list[Deletion] | None = None
) -> dict[str, tuple[int, str | None]]:
    request = AlterUserScramCredentialsRequest(deletions or [], upsertions)
    answer = controller.call(ApiKey.ALTER_USER_SCRAM_CREDENTIALS, request)
    return {each.user: (each.error_code, each.error_message) for each in answer.results}


def describe(controller: ControllerFixture, *users: str) -> DescribeUserScramCredentialsResponse:
    named = [DescribeUserScramCredentialsRequest.UserName(user) for user in users]
    answer = controller.call(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS, DescribeUserScramCredentialsRequest(named)
    )
    assert isinstance(answer, DescribeUserScramCredentialsResponse)
    return answer


@pytest.fixture
def controller() -> ControllerFixture:
    return ControllerFixture()


def test_a_user_has_one_credential_for_each_mechanism(controller: ControllerFixture) -> None:
    assert alter(controller, [upsertion("alice")]) == {"alice": (0, None)}
    assert alter(controller, [upsertion("alice", 2, 8192)]) == {"alice": (0, None)}
    (told,) = describe(controller, "alice").results
    assert [(each.mechanism, each.iterations) for each in told.credential_infos] == [(1, 4096), (2, 8192)]
    known = controller.controller.image.scram.get(1, "alice")
    assert known == new_credential(SHA_256, b"salted", SALT, 4096)
    assert alter(controller, [], [Deletion("alice", 1)]) == {"alice": (0, None)}
    (told,) = describe(controller).results
    assert [each.mechanism for each in told.credential_infos] == [2]


def test_what_cannot_be_set_is_refused_in_kafkas_words(controller: ControllerFixture) -> None:
    changes = [
        upsertion("", 1),
        upsertion("mechanism", 3),
        upsertion("few", 1, 4095),
        upsertion("many", 2, 16385),
        upsertion("twice", 1),
        upsertion("twice", 2),
        upsertion("good"),
    ]
    unacceptable = ErrorCode.UNACCEPTABLE_CREDENTIAL
    assert alter(controller, changes, [Deletion("stranger", 1)]) == {
        "good": (0, None),
        "": (unacceptable, "Username must not be empty"),
        "mechanism": (ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism"),
        "few": (unacceptable, "Too few iterations"),
        "many": (unacceptable, "Too many iterations"),
        "twice": (
            ErrorCode.DUPLICATE_RESOURCE,
            "A user credential cannot be altered twice in the same request",
        ),
        "stranger": (
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to delete a user credential that does not exist",
        ),
    }
    assert [user for _, user in controller.controller.image.scram.by_key] == ["good"]


def test_a_user_who_is_deleted_and_set_at_once_stays_as_he_was(controller: ControllerFixture) -> None:
    alter(controller, [upsertion("alice")])
    before = controller.controller.image.scram
    changed = alter(controller, [upsertion("alice", 1, 8192)], [Deletion("alice", 1)])
    assert changed["alice"][0] == ErrorCode.DUPLICATE_RESOURCE
    assert controller.controller.image.scram == before


def test_who_is_asked_for_twice_or_is_not_there_is_told_so(controller: ControllerFixture) -> None:
    alter(controller, [upsertion("alice"), upsertion("bob")])
    told = describe(controller, "alice", "nobody", "alice", "bob")
    assert [(each.user, each.error_code, each.error_message) for each in told.results] == [
        (
            "alice",
            ErrorCode.DUPLICATE_RESOURCE,
            "Cannot describe SCRAM credentials for the same user twice in a single request: alice",
        ),
        (
            "nobody",
            ErrorCode.RESOURCE_NOT_FOUND,
            "Attempt to describe a user credential that does not exist: nobody",
        ),
        ("bob", 0, ""),
    ]


def test_who_may_not_alter_or_describe_the_cluster_is_refused(controller: ControllerFixture) -> None:
    for operation in (Operation.ALTER, Operation.DESCRIBE):
        controller.authorizer.forbidden.add((operation, ResourceType.CLUSTER, CLUSTER_NAME))
    refused = ErrorCode.CLUSTER_AUTHORIZATION_FAILED
    assert alter(controller, [upsertion("alice")]) == {"alice": (refused, refused.message)}
    assert describe(controller).error_code == refused
    assert controller.controller.image.scram.by_key == {}


def test_the_image_knows_how_many_iterations_users_have(controller: ControllerFixture) -> None:
    scram = controller.controller.image.scram
    assert scram.look_up(1, "nobody") == (None, 4096)
    alter(
        controller, [upsertion("a", 1, 8192), upsertion("b", 1, 8192), upsertion("c", 1), upsertion("d", 2)]
    )
    scram = controller.controller.image.scram
    assert [scram.look_up(mechanism, "nobody") for mechanism in (1, 2)] == [(None, 8192), (None, 4096)]
    assert scram.look_up(1, "c") == (scram.get(1, "c"), 8192)
    alter(controller, [], [Deletion("a", 1), Deletion("b", 1)])
    assert controller.controller.image.scram.look_up(1, "nobody") == (None, 4096)


def test_credentials_are_kept_by_snapshots_and_shown_by_nobody(controller: ControllerFixture) -> None:
    alter(controller, [upsertion("bob", 2), upsertion("alice")])
    image: ClusterImage = controller.controller.image
    records = [each for each in image_records(image) if isinstance(each, UserScramCredentialRecord)]
    assert [(each.mechanism, each.name) for each in records] == [(1, "alice"), (2, "bob")]
    assert str(SALT) not in repr(image.scram)
    assert "hidden" in repr(image.scram)


# storage format --add-scram


def first(*options: str) -> list[UserScramCredentialRecord]:
    return parse_first_credentials(options, SeededRandomSource(1))


def test_a_password_of_the_command_line_becomes_a_credential() -> None:
    (record,) = first('SCRAM-SHA-256=[name=alice,password="alice-secret"]')
    salted = salted_password(SHA_256, "alice-secret", record.salt, 4096)
    assert record == credential_record(1, "alice", new_credential(SHA_256, salted, record.salt, 4096))
    assert len(record.salt) in (25, 26)


def test_salt_iterations_and_salted_password_may_be_given() -> None:
    salt = base64.b64encode(SALT).decode()
    salted = salted_password(SHA_512, "secret", SALT, 8192)
    plain = first(f"SCRAM-SHA-512=[name=a,iterations=8192,salt={salt},password=secret]")
    given = base64.b64encode(salted).decode()
    assert plain == first(f"SCRAM-SHA-512=[name=a,iterations=8192,salt={salt},saltedpassword={given}]")
    assert plain[0].salt == SALT


@pytest.mark.parametrize(
    ("option", "sentence"),
    [
        ("SCRAM-SHA-256", "Failed to find equals sign"),
        ("MD5=[name=a,password=s]", "The add-scram mechanism MD5 is not supported."),
        ("SCRAM-SHA-256=name=a,password=s]", "Expected configuration string to start with ["),
        ("SCRAM-SHA-256=[name=a,password=s", "Expected configuration string to end with ]"),
        ("SCRAM-SHA-256=[name=a,s3cr3t]", "No equals sign found in a SCRAM component"),
        ("SCRAM-SHA-256=[password=s3cr3t]", "You must supply 'name' to add-scram"),
        ("SCRAM-SHA-256=[name=a]", "You must supply one of 'password' or 'saltedpassword' to add-scram"),
        (
            "SCRAM-SHA-256=[name=a,saltedpassword=c2VjcmV0]",
            "You must supply 'salt' with 'saltedpassword' to add-scram",
        ),
        ("SCRAM-SHA-256=[name=a,salt=s3cr3t!,password=p]", "Failed to decode given salt"),
        ("SCRAM-SHA-256=[name=a,password=s,iterations=x]", "Failed to parse iterations count: x"),
        (
            "SCRAM-SHA-256=[name=a,password=s,iterations=4095]",
            "The 'iterations' value must be >= 4096 for add-scram using SCRAM-SHA-256",
        ),
        (
            "SCRAM-SHA-512=[name=a,password=s,iterations=16385]",
            "The 'iterations' value must be <= 16384 for add-scram using SCRAM-SHA-512",
        ),
        ("SCRAM-SHA-256=[name=a,password=s,x=1]", "Unknown SCRAM configurations: x"),
    ],
)
def test_what_cannot_be_read_is_refused_without_its_secrets(option: str, sentence: str) -> None:
    with pytest.raises(MalformedCredential) as refused:
        first(option)
    assert str(refused.value).startswith(sentence)
    assert "s3cr3t" not in str(refused.value)


def formatter(files: MemoryFiles, level: int) -> Formatter:
    return Formatter(
        cluster_id=CLUSTER_ID,
        config=one_node_config(),
        files=files,
        clock=HandClock(),
        random_source=SeededRandomSource(3),
        metadata_version=level,
        credentials=first("SCRAM-SHA-256=[name=admin,password=secret]"),
    )


def test_a_cluster_begins_with_the_credentials_of_its_format() -> None:
    files = MemoryFiles()
    formatter(files, 30).run(io.StringIO())
    kept = [type(each).__name__ for each in read_bootstrap_records(one_node_config(), files)]
    assert kept[-1] == "UserScramCredentialRecord"
    controller = ControllerFixture(files)
    controller.settle()
    assert [user for _, user in controller.controller.image.scram.by_key] == ["admin"]


@pytest.mark.java
def test_kafka_storage_writes_the_same_records(tool_server: ToolServer, tmp_path: Path) -> None:
    salt, salted = base64.b64encode(SALT).decode(), base64.b64encode(b"x" * 32).decode()
    options = (
        f"SCRAM-SHA-256=[name=alice,iterations=8192,salt={salt},password=a b]",
        f'SCRAM-SHA-512=[name="bob",salt={salt},password="secret"]',
        f"SCRAM-SHA-256=[name=carol,salt={salt},saltedpassword={salted}]",
    )
    data = tmp_path / "data"
    config = tmp_path / "server.properties"
    settings = one_node_config(log__dirs=str(data)).static
    names = ("process.roles", "node.id", "listeners", "controller.listener.names", "log.dirs",
             "controller.quorum.bootstrap.servers", "listener.security.protocol.map")  # fmt: skip
    config.write_text("".join(f"{name}={settings[name].text}\n" for name in names))
    added = [word for option in options for word in ("--add-scram", option)]
    done = tool_server.run(
        "kafka-storage", "format", "--standalone", "-t", CLUSTER_ID, "-c", str(config), *added
    )
    assert done.code == 0, done
    kept = read_snapshot(RealFiles(), f"{data}/{BOOTSTRAP_FILE}").records
    assert [each for each in kept if isinstance(each, UserScramCredentialRecord)] == first(*options)


def test_a_cluster_of_a_level_without_scram_is_not_formatted_with_it() -> None:
    with pytest.raises(FormatRefused, match=r"SCRAM is only supported in metadata.version 3.5-IV2 or later"):
        formatter(MemoryFiles(), 10).run(io.StringIO())
