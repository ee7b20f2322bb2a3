"""The principal that an Envelope carries."""

from protocol.codec.message import Message, data


@data(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """Who sent a forwarded request, as an Envelope carries it (KIP-590)."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
