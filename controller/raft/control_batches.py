"""What the leader itself writes into the log: who leads, who votes, which kraft.version.

A leader's first batch opens its epoch: LEADER_CHANGE, and with kraft.version 1 the voters behind it, if the
log has never had them (they were in the bootstrap snapshot) or this leader listens elsewhere now.
"""

from __future__ import annotations

from collections.abc import Sequence

from controller.raft.replica import Replica
from controller.raft.voters import CONFIGURED, VoterSet
from protocol.codec.compiler import encode
from protocol.quorum import KRaftVersionRecord, LeaderChangeMessage
from protocol.records.control import ControlRecordType, build_control_batch

__all__ = ["append_control", "open_epoch"]


def open_epoch(replica: Replica, granting_voters: Sequence[int]) -> None:
    """Writes the first batch of the leader's epoch. Until it is committed, the leader does not know which
    records before it are committed."""
    voters = replica.voters
    change = LeaderChangeMessage(
        leader_id=replica.key.id,
        voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in voters.by_id],
        granting_voters=[LeaderChangeMessage.Voter(voter_id=voter_id) for voter_id in granting_voters],
    )
    content = [(ControlRecordType.LEADER_CHANGE, encode(change, 0))]
    version = replica.history.version
    if version > 0:
        own = replica.as_voter()
        if replica.history.voters_offset == CONFIGURED or voters.differs_from(own):
            content += _voters_content(version, voters.with_voter(own))
    _append(replica, content)


def append_control(replica: Replica, *, voters: VoterSet, kraft_version: int | None = None) -> int:
    """Writes the record of the voters, and that of the kraft.version if it changes. Returns the offset of the
    voters' record."""
    content = _voters_content(kraft_version, voters)
    _append(replica, content)
    return replica.log.end_offset - 1


def _voters_content(kraft_version: int | None, voters: VoterSet) -> list[tuple[ControlRecordType, bytes]]:
    content = []
    if kraft_version is not None:
        record = KRaftVersionRecord(k_raft_version=kraft_version)
        content.append((ControlRecordType.KRAFT_VERSION, encode(record, 0)))
    content.append((ControlRecordType.KRAFT_VOTERS, encode(voters.to_record(), 0)))
    return content


def _append(replica: Replica, content: list[tuple[ControlRecordType, bytes]]) -> None:
    base_offset = replica.log.end_offset
    batch = build_control_batch(
        content, timestamp_ms=replica.wall_ms, base_offset=base_offset, leader_epoch=replica.epoch
    )
    replica.log.append(bytes(batch), base_offset + len(content), replica.epoch)
    replica.history.read(batch, 0, base_offset)
