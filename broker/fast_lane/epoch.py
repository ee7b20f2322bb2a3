"""The one number that says whether what was decided for an earlier request still holds."""

from __future__ import annotations


class LaneEpoch:
    """One per node. It is bumped by every change that could alter what a remembered request is answered.

    ============================================  ==========================================
    a change of                                   bumps it in
    ============================================  ==========================================
    topics, brokers, ACLs, metadata version,      `MetadataCache.apply`: all that the image
    stored configs                                holds
    the quotas of clients in force                `BrokerServer._quotas_changed`
    a partition's role, leader epoch, ISR,        `Partition`: wherever its standing is
    min.insync.replicas, failed or deleted log    counted anew
    configs of this broker                        `DynamicConfigListeners.follow`
    ============================================  ==========================================

    An authorizer whose rules do not lie in the image bumps it itself.

    Whoever remembers a decision keeps the `number` of that moment with it, and forgets the decision when the
    number is another one. A bump costs each connection one request on the long way, so it may be done for
    every change that *could* matter; it should not be done for each request or batch.
    """

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0
        """Grows, and never comes back. Read it; only `bump` changes it."""

    def bump(self) -> None:
        """Has everybody forget what was decided so far."""
        self.number += 1
