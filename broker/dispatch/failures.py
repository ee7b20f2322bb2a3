"""The answer to a request whose handler has failed by a fault of the broker.

In Kafka every request class can make its own response with an error. Here the answer is made from the
declared fields of request and response. If the response has an error code of its own, it holds the error. If
only the items of its arrays have one, the arrays of the request are mirrored: each topic and partition of the
request is in the answer with its name or number, and with the error. If neither is possible no answer would
be true, and the connection is closed; so it is where none is awaited (acks=0).
"""

from __future__ import annotations

from typing import Any, Final, NoReturn

from broker.dispatch.routes import has_own_error_code
from broker.network.response_pieces import BYTES_LIKE
from protocol.codec.message import Message, Struct
from protocol.errors import ErrorCode
from protocol.messages.produce import ProduceRequest
from protocol.serving.error_counts import struct_arrays
from protocol.serving.pending import CloseConnection, Failed

_NO_OFFSET: Final = -1
"""Nothing is said of where records are, as in Kafka's ProduceResponse with an error."""


def failure_response(
    request: Message | None,
    response_class: type[Message],
    version: int,
    code: int = ErrorCode.UNKNOWN_SERVER_ERROR,
) -> Message | None:
    """A response that answers the whole request with one error. None if the response cannot say that in this
    version, if it needs the request and that was not kept, or if nobody awaits one."""
    if isinstance(request, ProduceRequest) and request.acks == 0:
        return None
    if has_own_error_code(response_class, version):
        return response_class(error_code=code)
    if request is None:
        return None
    mirrored: Message | None = _mirror(request, response_class, code)
    return mirrored


def raise_failure(name: str, response: Any) -> NoReturn:
    """Raises the exception that a handler of the API `name` gave instead of a response."""
    if isinstance(response, Failed):
        raise response.failure
    if isinstance(response, CloseConnection):
        raise response
    raise TypeError(f"{name} was completed with a {type(response).__name__}")


def release_slices(response: Any) -> None:
    """Releases the files of an answer that is not encoded."""
    for topic in getattr(response, "responses", None) or ():
        for partition in getattr(topic, "partitions", None) or ():
            records = getattr(partition, "records", None)
            if records is not None and not isinstance(records, BYTES_LIKE):
                records.release()


def _mirror(source: Struct, target: type[Any], code: int) -> Any:
    """An instance of the target class with the fields that both have. Its first array of items with error
    codes is filled from the source's."""
    values: dict[str, Any] = {
        name: getattr(source, name)
        for name in target.__struct_fields__
        if name in source.__struct_fields__ and isinstance(getattr(source, name), str | bytes | int)
    }
    if "error_code" in target.__struct_fields__ and not issubclass(target, Message):
        values["error_code"] = code
        if "base_offset" in target.__struct_fields__:
            values["base_offset"] = _NO_OFFSET
        return target(**values)
    for target_field, target_element in struct_arrays(target):
        for source_field, _ in struct_arrays(type(source)):
            items = [_mirror(item, target_element, code) for item in getattr(source, source_field) or ()]
            if items and None not in items:
                values[target_field] = items
                return target(**values)
    return None
