"""The ways between machines, and what is wrong with them.

A link is the way of the bytes from one machine to another; the way back is another link, so one may be cut
and the other not. Several faults may lie on one link, each with its own end, so they are counted.
"""

from __future__ import annotations

__all__ = ["Link", "Links"]


class Link:
    """cuts: faults that let nothing pass. refusals: faults that have new connections refused. resets: so many
    of the next parts that are sent here have their connection reset in their place. delays: by how many
    nanoseconds, at least and at most, each fault delays a part."""

    __slots__ = ("cuts", "delays", "refusals", "resets")

    def __init__(self) -> None:
        self.cuts = 0
        self.refusals = 0
        self.resets = 0
        self.delays: list[tuple[int, int]] = []


class Links:
    """All links, made when they are first asked for."""

    def __init__(self) -> None:
        self._links: dict[tuple[str, str], Link] = {}

    def of(self, source: str, target: str) -> Link:
        key = (source, target)
        link = self._links.get(key)
        if link is None:
            link = self._links[key] = Link()
        return link

    def is_cut(self, source: str, target: str) -> bool:
        """Whether one of both ways is cut, so that a connection cannot be made."""
        return bool(self.of(source, target).cuts or self.of(target, source).cuts)
