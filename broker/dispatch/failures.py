"""What a client gets when a handler failed in a way that it must not.

Kafka's requests know how to answer themselves with an error; here the answer is made from the shapes of
request and response. Where the response has an error code of its own, that says it all. Where only the
items of its arrays have one, the arrays of the request are mirrored: each topic and partition that was
asked for comes back with its name or number, and the error. Where neither works there is no honest answer,
and the connection is closed.
"""

from __future__ import annotations

from typing import Any, NoReturn

from broker.dispatch.routes import has_own_error_code, struct_arrays
from protocol.codec.message import Message, Struct
from protocol.errors import ErrorCode
from protocol.serving.pending import CloseConnection, Failed


def failure_response(
    request: Message | None,
    response_class: type[Message],
    version: int,
    code: int = ErrorCode.UNKNOWN_SERVER_ERROR,
) -> Message | None:
    """The whole request answered with one error; None where the response cannot say it in this version, or
    would need the request for it and that is gone."""
    if has_own_error_code(response_class, version):
        return response_class(error_code=code)
    if request is None:
        return None
    mirrored: Message | None = _mirror(request, response_class, code)
    return mirrored


def raise_failure(name: str, response: Any) -> NoReturn:
    """Raises what came in place of a response of the API `name`: the exception that it stands for."""
    if isinstance(response, Failed):
        raise response.failure
    if isinstance(response, CloseConnection):
        raise response
    raise TypeError(f"{name} was completed with a {type(response).__name__}")


def _mirror(source: Struct, target: type[Any], code: int) -> Any:
    """A target with the fields that both have, and with its first array of errors filled from the
    source's."""
    values: dict[str, Any] = {
        name: getattr(source, name)
        for name in target.__struct_fields__
        if name in source.__struct_fields__ and isinstance(getattr(source, name), str | bytes | int)
    }
    if "error_code" in target.__struct_fields__ and not issubclass(target, Message):
        values["error_code"] = code
        return target(**values)
    for target_field, target_element in struct_arrays(target):
        for source_field, _ in struct_arrays(type(source)):
            items = [_mirror(item, target_element, code) for item in getattr(source, source_field) or ()]
            if items and None not in items:
                values[target_field] = items
                return target(**values)
    return None
