"""When the active controller has last heard of each broker. This is in no log.

A broker's session begins with its registration or its first heartbeat at this controller, and each heartbeat
renews it. A new leader cannot know when a broker has sent its last heartbeat, so when it becomes active every
unfenced broker gets one session timeout of grace. That is not a session: a broker that comes back under
another incarnation need not wait for it to end.
"""

from __future__ import annotations

import msgspec

__all__ = ["BrokerLiveness"]


class _Contact(msgspec.Struct):
    epoch: int
    last_ms: int
    heard: bool
    metadata_offset: int = -1
    shutdown_offset: int | None = None


class BrokerLiveness:
    """When each broker last sent a heartbeat, by broker id. Times are monotonic milliseconds."""

    def __init__(self, session_timeout_ms: int) -> None:
        self.session_timeout_ms = session_timeout_ms
        self._contacts: dict[int, _Contact] = {}

    def heard(self, broker_id: int, epoch: int, now_ms: int, metadata_offset: int = -1) -> None:
        contact = self._contacts.get(broker_id)
        if contact is None or contact.epoch != epoch:
            self._contacts[broker_id] = _Contact(epoch, now_ms, True, metadata_offset)
            return
        contact.last_ms = now_ms
        contact.heard = True
        contact.metadata_offset = max(contact.metadata_offset, metadata_offset)

    def grace(self, broker_id: int, epoch: int, now_ms: int) -> None:
        """Starts a broker's session when this controller becomes active, although it has had no heartbeat of
        it yet."""
        self._contacts[broker_id] = _Contact(epoch, now_ms, False)

    def forget(self, broker_id: int) -> None:
        """Forgets a broker that was fenced, because its session is over."""
        self._contacts.pop(broker_id, None)

    def clear(self) -> None:
        self._contacts.clear()

    def has_session(self, broker_id: int, epoch: int, now_ms: int) -> bool:
        """Whether this incarnation of the broker sent this controller a heartbeat within the session
        timeout."""
        contact = self._contacts.get(broker_id)
        if contact is None or contact.epoch != epoch or not contact.heard:
            return False
        return now_ms - contact.last_ms < self.session_timeout_ms

    def overdue(self, now_ms: int) -> list[int]:
        """The ids of the brokers whose session has expired."""
        return [
            broker_id
            for broker_id in sorted(self._contacts)
            if now_ms - self._contacts[broker_id].last_ms >= self.session_timeout_ms
        ]

    def silences_ms(self, now_ms: int) -> dict[int, int]:
        """The milliseconds since the last heartbeat of each broker, by broker id."""
        return {
            broker_id: now_ms - self._contacts[broker_id].last_ms
            for broker_id in sorted(self._contacts)
            if self._contacts[broker_id].heard
        }

    def next_deadline_ms(self) -> int | None:
        """When the next session would expire; None without any sessions."""
        if not self._contacts:
            return None
        return min(contact.last_ms for contact in self._contacts.values()) + self.session_timeout_ms

    def shuts_down(self, broker_id: int, offset: int) -> None:
        """Remembers the last offset of the records that move its leaderships away."""
        contact = self._contacts.get(broker_id)
        if contact is not None:
            contact.shutdown_offset = offset

    def shutdown_offset(self, broker_id: int) -> int:
        """The offset that a broker must reach before it may shut down; -1 if this controller does not know
        that it is shutting down."""
        contact = self._contacts.get(broker_id)
        if contact is None or contact.shutdown_offset is None:
            return -1
        return contact.shutdown_offset

    def lowest_metadata_offset(self, broker_ids: list[int], otherwise: int) -> int:
        """The least offset that any of these has reached: all of them have seen what lies below."""
        return min(
            (self._contacts[i].metadata_offset for i in broker_ids if i in self._contacts), default=otherwise
        )
