"""The leader changes who votes: AddRaftVoter, RemoveRaftVoter, UpdateRaftVoter, kraft.version. KIP-853, 1186.

One change at a time, and each only when nothing of an earlier one is uncommitted and a record of this epoch
is committed (without that a change of an earlier leader could come back and two majorities not overlap).
The new voters count from the moment when their record is in the leader's log.

    add      ask the new voter for its kraft.versions ─▶ is it caught up? ─▶ write ─▶ committed ─▶ answer
    remove   write ─▶ committed ─▶ answer; a leader that removed itself resigns then
    update   write ─▶ answer

Answers besides NONE: INCONSISTENT_CLUSTER_ID, NOT_LEADER_OR_FOLLOWER, BROKER_NOT_AVAILABLE, INVALID_REQUEST,
UNSUPPORTED_VERSION (kraft.version 0), DUPLICATE_VOTER, VOTER_NOT_FOUND, and REQUEST_TIMED_OUT for everything
that another attempt may find settled.
"""

from __future__ import annotations

from typing import Final

from controller.raft.control_batches import append_control
from controller.raft.identity import Peer, ReplicaKey
from controller.raft.replica import Replica
from controller.raft.roles import AddingVoter, Leader, VoterOperation
from controller.raft.serving import leader_only_error
from controller.raft.voters import Endpoints, Voter, VoterSet
from controller.raft.wire import Caller, endpoints_of, update_voter_answer
from protocol.codec.message import Message
from protocol.errors import ErrorCode
from protocol.messages.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
from protocol.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from protocol.messages.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
from protocol.messages.update_raft_voter import UpdateRaftVoterRequest
from protocol.values import ZERO_UUID, uuid_to_text

__all__ = [
    "VersionChangeRefused",
    "add_refused",
    "check_kraft_version",
    "finish_operation",
    "give_up",
    "handle_add",
    "handle_api_versions",
    "handle_remove",
    "handle_update",
    "upgrade_kraft_version",
]

KRAFT_VERSION: Final = "kraft.version"
CAUGHT_UP_WITHIN_MS: Final = 3_600_000

PENDING: Final = "Request timed out waiting for leader to handle previous voter change request"
NOT_FENCED: Final = "Request timed out waiting for leader to establish HWM and fence previous voter changes"


class VersionChangeRefused(Exception):
    """The kraft.version cannot be raised now. `error` is the code for the answer."""

    def __init__(self, error: ErrorCode, text: str) -> None:
        super().__init__(text)
        self.error = error


def describe(key: ReplicaKey) -> str:
    """Names a replica as the texts in Kafka's answers do."""
    return f"ReplicaKey(id={key.id}, directoryId={uuid_to_text(key.directory_id)})"


def _describe_all(voters: VoterSet) -> str:
    return "[" + ", ".join(describe(key) for key in voters.replica_keys()) + "]"


def _describe_endpoints(endpoints: Endpoints) -> str:
    told = ", ".join(
        f"ListenerName({name})={address.host}/<unresolved>:{address.port}"
        for name, address in endpoints.items()
    )
    return f"Endpoints(endpoints={{{told}}})"


def _obstacle(replica: Replica, doing: str) -> tuple[ErrorCode, str] | None:
    """The reason for which no voter can be added or removed now."""
    state = replica.leading()
    if state.operation is not None:
        return ErrorCode.REQUEST_TIMED_OUT, PENDING
    if not state.is_established:
        return ErrorCode.REQUEST_TIMED_OUT, NOT_FENCED
    version = replica.history.version
    if version == 0:
        return (
            ErrorCode.UNSUPPORTED_VERSION,
            f"Cluster doesn't support {doing} voter because the {KRAFT_VERSION} feature is {version}",
        )
    offset = replica.history.voters_offset
    if offset is None or offset >= replica.high_watermark:
        text = "Request timed out waiting for voters to commit the latest voter change at "
        return ErrorCode.REQUEST_TIMED_OUT, f"{text}{offset} with HWM {replica.high_watermark}"
    return None


def _wrong_cluster(replica: Replica, cluster_id: str | None) -> str | None:
    if replica.is_of_cluster(cluster_id):
        return None
    return f'The given id "{cluster_id}" doesn\'t match the cluster id "{replica.config.cluster_id}"'


# Adding


def handle_add(replica: Replica, caller: Caller, request: AddRaftVoterRequest) -> None:
    error, text = _judge_add(replica, request)
    if error is not ErrorCode.NONE:
        replica.answer(caller.token, AddRaftVoterResponse(error_code=error, error_message=text))
        return
    state = replica.leading()
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    endpoints = dict(endpoints_of(request.listeners))
    peer = Peer(key.id, *endpoints[replica.config.listener])
    if not replica.connections.is_free(key.id, replica.now_ms):
        text = f"New voter {describe(key)} is not ready to receive requests"
        error = ErrorCode.REQUEST_TIMED_OUT
        replica.answer(caller.token, AddRaftVoterResponse(error_code=error, error_message=text))
        return
    deadline_ms = replica.now_ms + replica.config.request_timeout_ms
    adding = AddingVoter(key, endpoints, request.ack_when_committed)
    state.operation = VoterOperation(caller.token, AddRaftVoterResponse, deadline_ms, adding=adding)
    software = {"client_software_name": "barnabas", "client_software_version": "1"}
    replica.ask(peer, ApiVersionsRequest(**software))


def _judge_add(replica: Replica, request: AddRaftVoterRequest) -> tuple[ErrorCode, str | None]:
    wrong_cluster = _wrong_cluster(replica, request.cluster_id)
    if wrong_cluster is not None:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, wrong_cluster
    error = leader_only_error(replica, replica.epoch)
    if error is not ErrorCode.NONE:
        return error, None
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "Add voter request didn't include a valid voter"
    endpoints = endpoints_of(request.listeners)
    listener = replica.config.listener
    if listener not in endpoints:
        text = f"Add voter request didn't include the endpoint ({_describe_endpoints(endpoints)})"
        return ErrorCode.INVALID_REQUEST, f"{text} for the default listener ListenerName({listener})"
    obstacle = _obstacle(replica, "adding")
    if obstacle is not None:
        return obstacle
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    if key.id in replica.voters.by_id:
        text = f"The voter id for {describe(key)} is already part of the set of voters"
        return ErrorCode.DUPLICATE_VOTER, f"{text} {_describe_all(replica.voters)}."
    return ErrorCode.NONE, None


def add_refused(replica: Replica, error: ErrorCode) -> None:
    """The voter that is being added has not answered."""
    state = replica.leading()
    if state.operation is not None and state.operation.adding is not None:
        text = f"Aborted add voter operation for since API_VERSIONS returned an error {error.name}"
        _end(replica, state, ErrorCode.REQUEST_TIMED_OUT, text)


def handle_api_versions(replica: Replica, peer_id: int, response: ApiVersionsResponse) -> None:
    """The voter that is being added tells which versions it can run. After the last checks its record is
    written."""
    state = replica.leading()
    operation = state.operation
    if operation is None or operation.adding is None or operation.adding.key.id != peer_id:
        return
    adding = operation.adding
    if response.error_code:
        add_refused(replica, ErrorCode.of(response.error_code))
        return
    known = [feature for feature in response.supported_features if feature.name == KRAFT_VERSION]
    lowest, highest = (known[0].min_version, known[0].max_version) if known else (0, 0)
    if not lowest <= replica.history.version <= highest:
        _end(
            replica, state, ErrorCode.INVALID_REQUEST,
            f"Aborted add voter operation for {describe(adding.key)} since the {KRAFT_VERSION} range "
            f"(min: {lowest}, max: {highest}) doesn't support the finalized version "
            f"{replica.history.version}",
        )  # fmt: skip
        return
    progress = state.observers.get(adding.key)
    caught_up = (
        progress is not None
        and progress.last_caught_up_ms >= 0
        and progress.last_fetch_ms > replica.now_ms - CAUGHT_UP_WITHIN_MS
    )
    if not caught_up:
        text = f"Aborted add voter operation for {describe(adding.key)} since it is lagging behind"
        _end(replica, state, ErrorCode.REQUEST_TIMED_OUT, text)
        return
    voter = Voter(adding.key, adding.endpoints, lowest, highest)
    operation.offset = append_control(replica, voters=replica.voters.with_voter(voter))
    operation.adding = None
    if not adding.ack_when_committed:
        replica.answer(operation.token, AddRaftVoterResponse(error_message=None))
        operation.token = None


# Removing


def handle_remove(replica: Replica, caller: Caller, request: RemoveRaftVoterRequest) -> None:
    error, text, voters = _judge_remove(replica, request)
    if voters is None:
        replica.answer(caller.token, RemoveRaftVoterResponse(error_code=error, error_message=text))
        return
    deadline_ms = replica.now_ms + replica.config.request_timeout_ms
    offset = append_control(replica, voters=voters)
    replica.leading().operation = VoterOperation(
        caller.token, RemoveRaftVoterResponse, deadline_ms, offset=offset
    )


def _judge_remove(
    replica: Replica, request: RemoveRaftVoterRequest
) -> tuple[ErrorCode, str | None, VoterSet | None]:
    wrong_cluster = _wrong_cluster(replica, request.cluster_id)
    if wrong_cluster is not None:
        return ErrorCode.INCONSISTENT_CLUSTER_ID, wrong_cluster, None
    error = leader_only_error(replica, replica.epoch)
    if error is not ErrorCode.NONE:
        return error, None, None
    if request.voter_id < 0 or request.voter_directory_id == ZERO_UUID:
        return ErrorCode.INVALID_REQUEST, "Remove voter request didn't include a valid voter", None
    obstacle = _obstacle(replica, "removing")
    if obstacle is not None:
        return *obstacle, None
    key = ReplicaKey(request.voter_id, request.voter_directory_id)
    voters = replica.voters.without(key)
    if voters is None:
        text = f"Cannot remove voter {describe(key)} from the set of voters {_describe_all(replica.voters)}"
        return ErrorCode.VOTER_NOT_FOUND, text, None
    return ErrorCode.NONE, None, voters


# Updating


def handle_update(replica: Replica, caller: Caller, request: UpdateRaftVoterRequest) -> None:
    """A voter tells its addresses and versions. With kraft.version 0 the leader only remembers them."""
    replica.answer(caller.token, update_voter_answer(replica, caller, _try_update(replica, request)))


def _try_update(replica: Replica, request: UpdateRaftVoterRequest) -> ErrorCode:
    if _wrong_cluster(replica, request.cluster_id) is not None:
        return ErrorCode.INCONSISTENT_CLUSTER_ID
    error = leader_only_error(replica, request.current_leader_epoch)
    if error is not ErrorCode.NONE:
        return error
    endpoints = endpoints_of(request.listeners)
    supported = request.k_raft_version_feature
    lowest, highest = supported.min_supported_version, supported.max_supported_version
    if (
        request.voter_id < 0
        or request.voter_directory_id == ZERO_UUID
        or replica.config.listener not in endpoints
        or not 0 <= lowest <= highest
    ):
        return ErrorCode.INVALID_REQUEST
    state = replica.leading()
    if state.operation is not None or not state.is_established:
        return ErrorCode.REQUEST_TIMED_OUT
    voter = Voter(ReplicaKey(request.voter_id, request.voter_directory_id), endpoints, lowest, highest)
    version = replica.history.version
    if version == 0:
        return _remember_static(replica, state, voter)
    offset = replica.history.voters_offset
    if offset is None or offset >= replica.high_watermark:
        return ErrorCode.REQUEST_TIMED_OUT
    if not lowest <= version <= highest:
        return ErrorCode.INVALID_REQUEST
    if not replica.voters.has(voter.key):
        return ErrorCode.VOTER_NOT_FOUND
    if replica.voters.differs_from(voter):
        append_control(replica, voters=replica.voters.with_voter(voter))
    return ErrorCode.NONE


def _remember_static(replica: Replica, state: Leader, voter: Voter) -> ErrorCode:
    known = state.static_voters
    if known is None:
        return ErrorCode.REQUEST_TIMED_OUT
    if voter.key.id not in known.by_id:
        return ErrorCode.VOTER_NOT_FOUND
    state.static_voters = known.with_voter(voter)
    return ErrorCode.NONE


# kraft.version


def check_kraft_version(replica: Replica, version: int) -> None:
    """Raises VersionChangeRefused if the version cannot be raised to this one now."""
    state = replica.leading()
    known = replica.history.version
    if version == known:
        return
    change = f"Invalid upgrade of {KRAFT_VERSION} from version {known} to {version}"
    if version < known:
        raise VersionChangeRefused(
            ErrorCode.INVALID_UPDATE_VERSION, f"{change} because the new version is a downgrade"
        )
    voters = state.static_voters
    if voters is None or not state.is_established or version > replica.config.max_kraft_version:
        raise VersionChangeRefused(ErrorCode.INVALID_UPDATE_VERSION, change)
    if not voters.supports(version) or any(key.directory_id == ZERO_UUID for key in voters.replica_keys()):
        raise VersionChangeRefused(
            ErrorCode.INVALID_UPDATE_VERSION,
            f"Invalid upgrade of {KRAFT_VERSION} to {version} because not all of the voters support it",
        )


def upgrade_kraft_version(replica: Replica, version: int) -> None:
    """Raises the version from 0 to 1: the voters of the config are written into the log, with the directories
    that they have told."""
    state = replica.leading()
    if state.static_voters is not None and version > replica.history.version:
        append_control(replica, kraft_version=version, voters=state.static_voters)
        state.static_voters = None


# The end of an operation


def finish_operation(replica: Replica, state: Leader) -> None:
    """Answers the pending change of voters if it is committed or its time is over. A record that was written
    stays in the log."""
    operation = state.operation
    if operation is None:
        return
    if 0 <= operation.offset < replica.high_watermark:
        _end(replica, state, ErrorCode.NONE, None)
    elif operation.deadline_ms <= replica.now_ms:
        _end(replica, state, ErrorCode.REQUEST_TIMED_OUT, None)


def give_up(replica: Replica, state: Leader) -> None:
    """This leader does not lead any more. Whether the pending change takes effect is decided under the next
    leader."""
    if state.operation is not None:
        _end(replica, state, ErrorCode.NOT_LEADER_OR_FOLLOWER, None)


def _end(replica: Replica, state: Leader, error: ErrorCode, text: str | None) -> None:
    operation, state.operation = state.operation, None
    if operation is not None and operation.token is not None:
        answer: Message = operation.response(error_code=error, error_message=text)
        replica.answer(operation.token, answer)
