"""The text files around the logs: what we write, what we read, what we refuse."""

from __future__ import annotations

import pytest

from protocol.values import uuid_from_text
from storage.checkpoints import (
    MalformedCheckpoint,
    encode_leader_epochs,
    encode_offsets,
    read_leader_epochs,
    read_offsets,
)
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE, encode_clean_shutdown, read_clean_shutdown
from storage.directories import LogDirectory
from storage.file_names import (
    DirectoryKind,
    DirectoryName,
    leaving_directory,
    offset_of,
    parse_directory,
    segment_file,
)
from storage.memory_files import MemoryFiles
from storage.meta_properties import (
    MalformedMetaProperties,
    MetaProperties,
    encode_meta_properties,
    read_meta_properties,
)
from storage.opening import (
    MalformedPartitionMetadata,
    encode_partition_metadata,
    read_partition_metadata,
)

UUID_TEXT = "hEJTDJmlT-Crmk2HTt9Mxw"
UUID = uuid_from_text(UUID_TEXT)


def with_file(content: bytes) -> MemoryFiles:
    files = MemoryFiles()
    files.write_atomically("/file", content)
    return files


def test_offset_checkpoints() -> None:
    offsets = {("orders", 0): 1741, ("a.b_c-d", 12): 0}
    data = encode_offsets(offsets)
    assert data == b"0\n2\norders 0 1741\na.b_c-d 12 0\n"
    assert read_offsets(with_file(data), "/file") == offsets
    assert read_offsets(with_file(data), "/none") == {}
    assert read_offsets(with_file(b""), "/file") == {}


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"1\n0\n", "line 1, wants the version 0, found '1'"),
        (b"0\n", "line 2, wants a whole number, found ''"),
        (b"0\nx\n", "line 2, wants a whole number, found 'x'"),
        (b"0\n2\norders 0 1\n", "promises 2 entries and has 1"),
        (b"0\n1\norders 0\n", "line 3, wants topic, partition and offset, found 'orders 0'"),
        (b"0\n2\norders 0 1741\norders 1 9", "ends within a line: 'orders 1 9' was cut off"),
        (b"0\n1\norders 0 1x\n", "line 3, wants a whole number, found '1x'"),
        (b"\xff\xfe", "is no text"),
    ],
)
def test_malformed_checkpoints_say_where(content: bytes, complaint: str) -> None:
    with pytest.raises(MalformedCheckpoint) as error:
        read_offsets(with_file(content), "/file")
    assert complaint in str(error.value)
    assert "Remove the file if nothing else helps" in str(error.value)


def test_leader_epoch_checkpoints() -> None:
    data = encode_leader_epochs([(0, 0), (3, 17)])
    assert data == b"0\n2\n0 0\n3 17\n"
    assert read_leader_epochs(with_file(data), "/file") == [(0, 0), (3, 17)]
    with pytest.raises(MalformedCheckpoint, match="wants epoch and start offset"):
        read_leader_epochs(with_file(b"0\n1\n1 2 3\n"), "/file")


def test_partition_metadata() -> None:
    data = encode_partition_metadata(UUID)
    assert data == b"version: 0\ntopic_id: hEJTDJmlT-Crmk2HTt9Mxw"
    assert read_partition_metadata(with_file(data), "/file") == UUID
    assert read_partition_metadata(with_file(data), "/none") is None
    for cut_off in (b"", b"version: 0\ntopic_id: short"):
        assert read_partition_metadata(with_file(cut_off), "/file") is None, "a crash came while it was made"
    for bad in (
        b"version: 1\ntopic_id: " + UUID_TEXT.encode(),
        b"version: 0\ntopic_id: " + b"!" * 22,
        b"\xff",
    ):
        with pytest.raises(MalformedPartitionMetadata):
            read_partition_metadata(with_file(bad), "/file")


def test_meta_properties() -> None:
    properties = MetaProperties("a:cluster=id", 7, UUID)
    data = encode_meta_properties(properties, 1_795_249_571_000)
    assert data.decode().splitlines() == [
        "#",
        "#Sat Nov 21 08:26:11 UTC 2026",
        r"cluster.id=a\:cluster\=id",
        f"directory.id={UUID_TEXT}",
        "node.id=7",
        "version=1",
    ]
    assert read_meta_properties(with_file(data), "/file") == properties
    assert read_meta_properties(with_file(data), "/none") is None
    old = b"#x\n! y\n\nversion = 0\nbroker.id=3\ncluster.id=abc\n"
    assert read_meta_properties(with_file(old), "/file") == MetaProperties("abc", 3, None)


def test_a_cluster_id_is_escaped_as_java_escapes_it() -> None:
    """The lines are those of `kafka-storage format -t …`, but for letters beyond ASCII, which Kafka writes in
    another encoding than it reads."""
    for cluster_id, line in (
        ("  ab ", rb"cluster.id=\  ab "),
        ("a #=:! x\\", rb"cluster.id=a \#\=\:\! x\\"),
        ("é🏰", rb"cluster.id=\u00e9\ud83c\udff0"),
    ):
        data = encode_meta_properties(MetaProperties(cluster_id, 1), 0)
        assert line in data.splitlines()
        assert read_meta_properties(with_file(data), "/file") == MetaProperties(cluster_id, 1)


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"version=2\n", "version '2'"),
        (b"version=1\nnode.id=1\n", "lacks cluster.id"),
        (b"version=1\ncluster.id=a\nbroker.id=1\n", "lacks node.id"),
        (b"version=1\ncluster.id=a\nnode.id=one\n", "bad value"),
        (b"version=1\ncluster.id=\\u00\nnode.id=1\n", "Malformed"),
        (b"version=1\ncluster.id=a\nnode.id=1\ndirectory.id=%%%\n", "bad value"),
    ],
)
def test_malformed_meta_properties(content: bytes, complaint: str) -> None:
    with pytest.raises(MalformedMetaProperties, match=complaint):
        read_meta_properties(with_file(content), "/file")


def test_clean_shutdown_marks() -> None:
    data = encode_clean_shutdown(17)
    assert data == b'{"version":0,"brokerEpoch":17}'
    assert read_clean_shutdown(with_file(data), "/file") == 17
    assert read_clean_shutdown(with_file(data), "/none") is None
    for old in (b"", b"{}", b"[]", b"\xff"):
        assert read_clean_shutdown(with_file(old), "/file") == -1


def test_segment_file_names() -> None:
    assert segment_file(42, ".log") == "00000000000000000042.log"
    assert offset_of("00000000000000000042.log", ".log") == 42
    for other in ("42.log", "00000000000000000042.log.deleted", "0000000000000000004x.log", ".log"):
        assert offset_of(other, ".log") is None


def test_directory_names() -> None:
    unique = bytes(range(16))
    assert parse_directory("a-b.c_d-12") == DirectoryName(DirectoryKind.LOG, "a-b.c_d", 12)
    assert parse_directory("t-3.0123-future") == DirectoryName(DirectoryKind.FUTURE, "t", 3)
    for kind in (DirectoryKind.DELETED, DirectoryKind.STRAY):
        name = leaving_directory("x" * 249, 12, unique, kind)
        assert len(name) == 255
        assert parse_directory(name).kind is kind
    assert leaving_directory("t", 3, unique, DirectoryKind.DELETED) == f"t-3.{unique.hex()}-delete"
    for other in ("t", "-1", "t-", "t-x", "t-12345678901", "topic"):
        assert parse_directory(other).kind is DirectoryKind.UNKNOWN


@pytest.mark.parametrize("kept", [0, 5, 12, 30, 42])
def test_partition_metadata_that_was_cut_off_names_no_topic(kept: int) -> None:
    files = MemoryFiles()
    whole = encode_partition_metadata(bytes(range(16)))
    for content in (whole[:kept], whole[:kept] + bytes(len(whole) - kept)):
        files.write_atomically("/m", content)
        assert read_partition_metadata(files, "/m") is None


def test_a_power_cut_does_not_bring_the_clean_mark_back() -> None:
    memory = MemoryFiles()
    memory.makedirs("/a")
    memory.fsync_directory("/")
    memory.write_atomically(f"/a/{CLEAN_SHUTDOWN_FILE}", encode_clean_shutdown(7))
    home = LogDirectory(memory, "/a")
    assert home.had_clean_shutdown
    home.forget_clean_shutdown()
    memory.cut_power(keep_names=False)
    assert not LogDirectory(memory, "/a").had_clean_shutdown
