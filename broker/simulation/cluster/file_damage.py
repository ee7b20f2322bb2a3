"""Files that somebody damages between two lives of a node.

    damage derived files     what can be found again in the batches, or need not be known. The broker makes it
                             again, and nothing is lost
    spoil a batch            a byte of a batch that no checkpoint calls synced is another one. The log is cut
                             there, and copied again from the leader
    restore an older copy    of the directories, as from a backup: the replicas are behind, and all that
                             was written since is copied again

Each step notes at once what is in the directories, ends the life of the node some time later, in order or
not, and does the damage just before the next life begins. Of derived files these kinds of damage are made:

    missing, empty, torn     as after a power cut in a file system that keeps no order
    zeros behind it          as where the length of a file had reached the disk, and its content had not
    a wrong byte             of a producer snapshot alone, which has a checksum
    an older one             of the checkpoints of recovery points and of the cleaner, which only say where to
                             begin

What a broker cannot see is not done: Kafka's formats give an index and a leader epoch no checksum. So an
index is cut or padded, not changed within; a `.txnindex` loses no whole entry; neither a
`leader-epoch-checkpoint` nor a log start is an older one; and `partition.metadata`, which says whose log it
is, stays.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from broker.simulation.cluster.active_faults import healing
from broker.simulation.cluster.cluster_steps import ClusterStep, Verb
from broker.simulation.cluster.machine_faults import drawn_duration_ms, whose_turn
from broker.simulation.cluster.simulated_node import SimulatedNode
from broker.simulation.seeded_random import SeededRandom
from controller.metadata.topic_names import METADATA_TOPIC
from protocol.records.header import HEADER, LOG_OVERHEAD_BYTES
from storage.checkpoints import (
    CLEANER_CHECKPOINT,
    HIGH_WATERMARK_CHECKPOINT,
    LOG_START_CHECKPOINT,
    RECOVERY_POINT_CHECKPOINT,
    MalformedCheckpoint,
    read_offsets,
)
from storage.clean_shutdown import CLEAN_SHUTDOWN_FILE
from storage.directories import LOCK_FILE
from storage.file_names import (
    LEADER_EPOCH_CHECKPOINT,
    LOG_SUFFIX,
    OFFSET_INDEX_SUFFIX,
    SNAPSHOT_SUFFIX,
    TIME_INDEX_SUFFIX,
    TRANSACTION_INDEX_SUFFIX,
    DirectoryKind,
    offset_of,
    parse_directory,
)
from storage.memory_files import MemoryFiles
from storage.meta_properties import META_PROPERTIES_FILE
from storage.transaction_index import ENTRY_BYTES

if TYPE_CHECKING:
    from broker.simulation.cluster.cluster_run import ClusterRun

__all__ = ["DAMAGE_VERBS", "WAYS"]

DAMAGE: Final = "damage derived files"
SPOIL: Final = "spoil a batch"
RESTORE: Final = "restore an older copy"
LONGEST_WAIT_MS: Final = 10_000
LONGEST_DOWN_MS: Final = 10_000
MOST_FILES: Final = 4
MOST_ZEROS: Final = 100

Contents = Mapping[str, bytes]
"""Of files, by path."""


# Files of a machine, without what is wrong with its disk


def _files_below(files: MemoryFiles, directory: str) -> list[str]:
    if not files.exists(directory):
        return []
    paths = [f"{directory}/{name}" for name in files.listdir(directory)]
    below = set(files.subdirectories(directory))
    return [
        each
        for path in paths
        for each in (_files_below(files, path) if path.rpartition("/")[2] in below else [path])
    ]


def _contents(node: SimulatedNode) -> Contents:
    """Of all its log directories."""
    files = node.machine.files
    return {path: files.read_bytes(path) for each in node.directories for path in _files_below(files, each)}


def _write(files: MemoryFiles, path: str, data: bytes) -> None:
    """On the disk: no power cut takes it back."""
    directory = path.rpartition("/")[0]
    files.makedirs(directory)
    file = files.open(path, create=True)
    file.truncate(0)
    file.write([data], 0)
    file.fsync()
    file.close()
    files.fsync_directory(directory)
    files.fsync_directory(directory.rpartition("/")[0] or "/")


def _remove(files: MemoryFiles, path: str) -> None:
    files.unlink(path)
    files.fsync_directory(path.rpartition("/")[0])


# Derived files

Way = Callable[[bytes, SeededRandom], bytes | None]
"""What becomes of a file's content; None for no file. The same content for nothing to be done."""


def _missing(data: bytes, random: SeededRandom) -> None:
    return None


def _empty(data: bytes, random: SeededRandom) -> bytes:
    return b""


def _torn(data: bytes, random: SeededRandom) -> bytes:
    return data[: random.below(len(data))] if data else data


def _torn_entry(data: bytes, random: SeededRandom) -> bytes:
    """The last entry is not whole, and no other one is lost: it is torn once at most."""
    is_whole = data and len(data) % ENTRY_BYTES == 0
    return data[: -1 - random.below(ENTRY_BYTES - 1)] if is_whole else data


def _zeros(data: bytes, random: SeededRandom) -> bytes:
    return data + bytes(1 + random.below(MOST_ZEROS))


def _wrong_byte(data: bytes, random: SeededRandom) -> bytes:
    if not data:
        return data
    at = random.below(len(data))
    return data[:at] + bytes([data[at] ^ (1 + random.below(255))]) + data[at + 1 :]


OLDER: Final = "older"
"""The way for which the former content is taken."""

_LOST_OR_TORN: Final[Mapping[str, Way]] = MappingProxyType(
    {"missing": _missing, "empty": _empty, "torn": _torn, "zeros behind": _zeros}
)
_OF_CHECKPOINTS: Final = MappingProxyType({**_LOST_OR_TORN, OLDER: _empty})

WAYS: Final[Mapping[str, Mapping[str, Way]]] = MappingProxyType(
    {
        OFFSET_INDEX_SUFFIX: _LOST_OR_TORN,
        TIME_INDEX_SUFFIX: _LOST_OR_TORN,
        TRANSACTION_INDEX_SUFFIX: {"torn": _torn_entry},
        SNAPSHOT_SUFFIX: {**_LOST_OR_TORN, "wrong byte": _wrong_byte},
        LEADER_EPOCH_CHECKPOINT: _LOST_OR_TORN,
        RECOVERY_POINT_CHECKPOINT: _OF_CHECKPOINTS,
        CLEANER_CHECKPOINT: _OF_CHECKPOINTS,
        HIGH_WATERMARK_CHECKPOINT: _LOST_OR_TORN,
        LOG_START_CHECKPOINT: _LOST_OR_TORN,
        CLEAN_SHUTDOWN_FILE: _LOST_OR_TORN,
    }
)
"""By the kind of a file, its name or its suffix: what may become of it."""


def _kind_of(path: str) -> str | None:
    """None for a file that is not damaged here."""
    directory, _, name = path.rpartition("/")
    if name in WAYS:
        return name
    if parse_directory(directory.rpartition("/")[2]).kind is not DirectoryKind.LOG:
        return None
    return next((suffix for suffix in WAYS if offset_of(name, suffix) is not None), None)


def _damage_derived(run: ClusterRun, node: SimulatedNode, random: SeededRandom, former: Contents) -> bool:
    """However the life has ended, the controller may hear nothing of it: the note of an orderly end may be
    among the files."""
    by_kind: dict[str, list[str]] = {}
    for path in _contents(node):
        kind = _kind_of(path)
        if kind is not None:
            by_kind.setdefault(kind, []).append(path)
    if not by_kind or not run.budget.may_end(node):
        return False
    run.budget.ended_without_order(node)
    for _ in range(1 + random.below(MOST_FILES)):
        kind = random.one_of(sorted(by_kind))
        path = random.one_of(by_kind[kind])
        way = random.one_of(sorted(WAYS[kind]))
        if _is_damaged(node, path, way, former.get(path), random):
            run.world.coverage.count(f"damaged: {kind} {way}")
            run.world.tell(f"{node}, {path}: {way}")
    return True


def _is_damaged(node: SimulatedNode, path: str, way: str, former: bytes | None, random: SeededRandom) -> bool:
    """Does it, and says whether the file is another one now."""
    files, kind = node.machine.files, _kind_of(path)
    if kind is None or not files.exists(path):
        return False
    before = files.read_bytes(path)
    after = former or before if way == OLDER else WAYS[kind][way](before, random)
    if after == before:
        return False
    if after is None:
        _remove(files, path)
    else:
        _write(files, path, after)
    return True


# Batches


def _spoil(run: ClusterRun, node: SimulatedNode, random: SeededRandom, former: Contents) -> bool:
    """The header's first bytes, up to the checksum, stay: they are not covered by it."""
    if not run.budget.may_lose(node):
        return False
    files = node.machine.files
    found = [
        (path, begin, end)
        for directory in node.directories
        for path, begin, end in _batches_above_recovery_point(files, directory)
    ]
    if not found:
        return False
    run.budget.lost(node)
    path, begin, end = random.one_of(found)
    at = random.between(begin + _FIRST_COVERED, end - 1)
    data = bytearray(files.read_bytes(path))
    data[at] ^= 1 + random.below(255)
    _write(files, path, bytes(data))
    run.world.tell(f"{node}, {path}: byte {at} is another one")
    return True


_FIRST_COVERED: Final = 21
"""The place in a batch from which on the checksum covers it."""


def _batches_above_recovery_point(files: MemoryFiles, directory: str) -> list[tuple[str, int, int]]:
    """Path, begin and end of batches in the last segments that a start reads from end to end, and of which no
    checkpoint says that they are on the disk."""
    if files.exists(f"{directory}/{CLEAN_SHUTDOWN_FILE}"):
        return []  # nothing is read from end to end
    try:
        recovery_points = read_offsets(files, f"{directory}/{RECOVERY_POINT_CHECKPOINT}")
    except MalformedCheckpoint:
        recovery_points = {}
    found = []
    for name in files.subdirectories(directory) if files.exists(directory) else ():
        parsed = parse_directory(name)
        if parsed.kind is not DirectoryKind.LOG or parsed.topic == METADATA_TOPIC:
            continue
        names = files.listdir(f"{directory}/{name}")
        logs = [each for each in names if offset_of(each, LOG_SUFFIX) is not None]
        if logs:
            path = f"{directory}/{name}/{max(logs)}"
            recovery_point = recovery_points.get((parsed.topic, parsed.partition), 0)
            found += [(path, *place) for place in _places(files.read_bytes(path), recovery_point)]
    return found


def _places(data: bytes, least_offset: int) -> list[tuple[int, int]]:
    """Of the whole batches in a segment that begin at this offset or above it."""
    places = []
    at = 0
    while at + HEADER.size <= len(data):
        base_offset, length = HEADER.unpack_from(data, at)[:2]
        end = at + LOG_OVERHEAD_BYTES + length
        if length < HEADER.size - LOG_OVERHEAD_BYTES or end > len(data):
            break
        if base_offset >= least_offset:
            places.append((at, end))
        at = end
    return places


# Directories


def _restore(run: ClusterRun, node: SimulatedNode, random: SeededRandom, former: Contents) -> bool:
    """All but what says which directory it is, and what a controller has voted and written. A note of an
    orderly end goes: the copy was made while the node ran."""
    if not run.budget.may_lose(node):
        return False
    run.budget.lost(node)
    files = node.machine.files
    now = _contents(node)
    for path in now:
        if _is_restored(node, path) and path not in former:
            _remove(files, path)
    for path, data in former.items():
        if _is_restored(node, path) and now.get(path) != data:
            _write(files, path, data)
    for directory in node.directories:
        _remove_empty(files, directory)
    return True


def _remove_empty(files: MemoryFiles, directory: str) -> None:
    """A partition of which the copy knows nothing has no directory."""
    for name in files.subdirectories(directory):
        if not files.listdir(f"{directory}/{name}"):
            files.rmtree(f"{directory}/{name}")
    files.fsync_directory(directory)


def _is_restored(node: SimulatedNode, path: str) -> bool:
    directory, _, name = path.rpartition("/")
    if name in (META_PROPERTIES_FILE, LOCK_FILE):
        return False
    topic = parse_directory(directory.rpartition("/")[2]).topic
    return topic != METADATA_TOPIC or not node.place.is_controller


# Lives

Damage = Callable[["ClusterRun", SimulatedNode, SeededRandom, Contents], bool]
"""Says whether it was done; the budget of losses may be against it, or nothing there for it."""


def _between_two_lives(
    run: ClusterRun, step: ClusterStep, damage: Damage, *, only_after_a_kill: bool
) -> str | None:
    node = whose_turn(run, step)
    if node is None:
        return None
    random = step.random()
    wait_ms = drawn_duration_ms(random, most_ms=LONGEST_WAIT_MS)
    call = partial(_do_damage, run, node, random, step.verb, damage, _contents(node))
    end = partial(_end_life, run, node, random, call, only_after_a_kill=only_after_a_kill)
    run.world.faults.begin(step.verb, wait_ms, end)
    return f"{step.verb}: of {node}, whose life is to end in {wait_ms} ms"


def _end_life(
    run: ClusterRun,
    node: SimulatedNode,
    random: SeededRandom,
    damage: Callable[[], None],
    *,
    only_after_a_kill: bool,
) -> None:
    """Nothing is damaged any more when the trouble is over."""
    if run.is_calm or run.world.nodes.get(node.node_id) is not node or node.node is None:
        return
    may_stop = node.is_ready and not (node.machine.is_still or only_after_a_kill)
    is_in_order = random.below(2) > 0 and may_stop
    if node.node.is_stopping or not (is_in_order or run.budget.may_end(node)):
        return
    run.world.restarts.after(node, drawn_duration_ms(random, most_ms=LONGEST_DOWN_MS))
    run.world.restarts.before_next(node, damage)
    if is_in_order:
        node.machine.stop()
    else:
        node.machine.kill()


def _do_damage(
    run: ClusterRun,
    node: SimulatedNode,
    random: SeededRandom,
    verb: str,
    damage: Damage,
    former: Contents,
) -> None:
    when = "between two lives" if damage(run, node, random, former) else "not done between two lives"
    run.world.coverage.count(f"{when}: {verb}")


def _verb(name: str, damage: Damage, weight: int, *, only_after_a_kill: bool = False) -> tuple[str, Verb]:
    play = partial(_between_two_lives, damage=damage, only_after_a_kill=only_after_a_kill)
    return name, Verb(play, weight, healing(name))


DAMAGE_VERBS: Final[Mapping[str, Verb]] = MappingProxyType(
    dict(
        (
            _verb(DAMAGE, _damage_derived, 5),
            _verb(SPOIL, _spoil, 2, only_after_a_kill=True),
            _verb(RESTORE, _restore, 3),
        )
    )
)
