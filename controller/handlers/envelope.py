"""Envelope (58): a client's request that a broker passes on, decided in the client's name. KIP-590.

Version 0. The envelope holds the request as the client sent it (header and body), the client's principal as
Kafka's default builder writes it (int16 version, then DefaultPrincipalData), and its address. The handler
of the wrapped API is called with that principal, and its answer travels back, header and body, in the same
wrapping.

Only APIs that brokers forward are unwrapped. NOT_CONTROLLER on the envelope lets the broker look for the
active controller; it takes the place of an answer that says so, because clients asked a broker and not a
controller. A request of a version that is not served, or one that cannot be read, is
UNSUPPORTED_VERSION, after which the broker cuts its client off; what follows a request is read over. Other
faults of the wrapping are the broker's own, never the client's. Needs CLUSTER_ACTION.

A long request is decoded in turns, and its answer is encoded in turns if the handler has it at once, as if
the client had sent the request to the controller directly.
"""

from __future__ import annotations

from collections.abc import Generator
from ipaddress import ip_address
from typing import Any, Final

from config.limits import ONE_STEP_MEMORY_BYTES, PLAIN_REQUEST_BYTES
from controller.services import ControllerServices
from protocol.codec.compiler import (
    around_encoder,
    decode,
    decoder,
    elements_encoder,
    encode,
    stepping_decoder,
)
from protocol.codec.message import Message
from protocol.errors import ErrorCode, ProtocolError
from protocol.headers import ResponseHeader, decode_request_header
from protocol.messages.describe_quorum import DescribeQuorumResponse
from protocol.messages.envelope import DefaultPrincipalData, EnvelopeRequest, EnvelopeResponse
from protocol.registry import ApiKey, api
from protocol.serving.authorization import Operation
from protocol.serving.error_counts import error_counter
from protocol.serving.handler_table import ServedApi
from protocol.serving.pending import Pending
from protocol.serving.request_context import RequestContext
from protocol.serving.session import Principal, Session, plain_host
from protocol.serving.turns import Turns, in_turns, longest_array

PRINCIPAL_VERSION: Final = 0

FORWARDED: Final = frozenset(
    {
        ApiKey.CREATE_TOPICS,
        ApiKey.DELETE_TOPICS,
        ApiKey.CREATE_ACLS,
        ApiKey.DELETE_ACLS,
        ApiKey.ALTER_CONFIGS,
        ApiKey.CREATE_PARTITIONS,
        ApiKey.CREATE_DELEGATION_TOKEN,
        ApiKey.RENEW_DELEGATION_TOKEN,
        ApiKey.EXPIRE_DELEGATION_TOKEN,
        ApiKey.ELECT_LEADERS,
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        ApiKey.ALTER_CLIENT_QUOTAS,
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        ApiKey.DESCRIBE_QUORUM,
        ApiKey.UPDATE_FEATURES,
        ApiKey.UNREGISTER_BROKER,
        ApiKey.ALLOCATE_PRODUCER_IDS,
        ApiKey.ADD_RAFT_VOTER,
        ApiKey.REMOVE_RAFT_VOTER,
    }
)


class _Refused(Exception):
    """The envelope cannot be opened. Holds the error code for its answer."""

    def __init__(self, error: ErrorCode) -> None:
        super().__init__(error.name)
        self.error = error


@in_turns
def handle(
    services: ControllerServices, context: RequestContext, request: EnvelopeRequest
) -> Turns[EnvelopeResponse | Pending[EnvelopeResponse]]:
    if not context.allows_cluster(Operation.CLUSTER_ACTION):
        return EnvelopeResponse(error_code=ErrorCode.CLUSTER_AUTHORIZATION_FAILED)
    try:
        served, inner, position = _open(services, context, request)
        wrapped = yield from _decoded(served, inner.version, request.request_data, position)
    except _Refused as refused:
        return EnvelopeResponse(error_code=refused.error)
    except ProtocolError:
        return EnvelopeResponse(error_code=ErrorCode.UNSUPPORTED_VERSION)
    if not services.controller.is_active:
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    answer = served.handler(services, inner, wrapped)
    if isinstance(answer, Pending):
        return answer.then(lambda response: _close(inner, response))
    if len(request.request_data) <= PLAIN_REQUEST_BYTES:
        return _close(inner, answer)
    return (yield from _close_in_turns(inner, answer))


def _open(
    services: ControllerServices, context: RequestContext, envelope: EnvelopeRequest
) -> tuple[ServedApi[Any], RequestContext, int]:
    """The handler of the wrapped request, a context that speaks for the client, and where the request begins
    behind its header."""
    principal = _principal(envelope.request_principal)
    host = _host(envelope.client_host_address)
    header, position = decode_request_header(envelope.request_data, 0)
    if header.request_api_key not in FORWARDED:
        raise _Refused(ErrorCode.INVALID_REQUEST)
    served = services.handlers.get(header.request_api_key)
    version = header.request_api_version
    if served is None or not served.min_version <= version <= served.max_version:
        raise _Refused(ErrorCode.UNSUPPORTED_VERSION)
    outer = context.session
    session = Session(
        connection_id=outer.connection_id,
        listener=outer.listener,
        host=host,
        principal=principal,
        security_protocol=outer.security_protocol,
    )
    inner = RequestContext(
        api_key=header.request_api_key,
        version=version,
        correlation_id=header.correlation_id,
        client_id=header.client_id or "",
        session=session,
        now_ms=context.now_ms,
        authorizer=context.authorizer,
        frame_size_bytes=len(envelope.request_data),
    )
    return served, inner, position


def _decoded(
    served: ServedApi[Any], version: int, data: bytes, position: int
) -> Generator[None, None, Message]:
    """The wrapped request; a long one takes no more memory than if it came by itself."""
    request = api(served.api_key).request
    if len(data) <= PLAIN_REQUEST_BYTES:
        wrapped, _ = decoder(request, version)(data, position)
    else:
        wrapped, _ = yield from stepping_decoder(request, version)(data, position, ONE_STEP_MEMORY_BYTES)
    return wrapped


def _principal(data: bytes | None) -> Principal:
    if data is None or len(data) < 2 or int.from_bytes(data[:2], "big") != PRINCIPAL_VERSION:
        raise _Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE)
    try:
        principal = decode(DefaultPrincipalData, PRINCIPAL_VERSION, memoryview(data)[2:])
    except ProtocolError:
        raise _Refused(ErrorCode.PRINCIPAL_DESERIALIZATION_FAILURE) from None
    return Principal(name=principal.name, type=principal.type)


def _host(address: bytes) -> str:
    try:
        return plain_host(str(ip_address(address)))
    except ValueError:
        raise _Refused(ErrorCode.INVALID_REQUEST) from None


def _close(inner: RequestContext, response: Message) -> EnvelopeResponse:
    """The answer as the client will get it, without the four bytes of its size."""
    if _is_of_no_controller(response):
        return EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER)
    return EnvelopeResponse(response_data=_header(inner) + encode(response, inner.version))


def _close_in_turns(inner: RequestContext, response: Message) -> Generator[None, None, EnvelopeResponse]:
    """Does as `_close`, and encodes the elements of the response's longest array in turns. An answer that is
    there at once is that of an active controller."""
    cls, version = type(response), inner.version
    name = longest_array(response, version)
    elements = getattr(response, name) if name else None
    if elements is None:
        return _close(inner, response)
    encoded: list[bytes] = []
    yield from elements_encoder(cls, version, name)(elements, encoded)
    before, after = around_encoder(cls, version, name)(response, len(elements))
    return EnvelopeResponse(response_data=b"".join([_header(inner), before, *encoded, after]))


def _is_of_no_controller(response: Message) -> bool:
    """Whether the answer says that the leadership was lost meanwhile."""
    count_errors = error_counter(type(response))
    if count_errors is None:
        return False
    errors: dict[int, int] = {}
    count_errors(response, errors)
    lost = ErrorCode.NOT_CONTROLLER
    if isinstance(response, DescribeQuorumResponse):
        lost = ErrorCode.NOT_LEADER_OR_FOLLOWER
    return lost in errors


def _header(inner: RequestContext) -> bytes:
    header = ResponseHeader(correlation_id=inner.correlation_id)
    return encode(header, api(inner.api_key).response_header_version(inner.version))
