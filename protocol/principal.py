"""Principal."""

from protocol.codec.message import Message, data


@data(versions="0", flexible="0+")
class DefaultPrincipalData(Message):
    """DefaultPrincipalData."""

    type: str = ""
    name: str = ""
    token_authenticated: bool = False
