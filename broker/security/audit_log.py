"""The log of what clients were denied, as Kafka's `kafka.authorizer.logger`: at INFO what was denied, at
DEBUG what was allowed.

A client that is denied tries again, often without a pause, and names what it likes. So at most
`LINES_PER_SECOND` lines are written in a second, the next line says how many were left out, and a name is
cut.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from config.limits import TOPIC_NAME_LENGTH
from config.setting import one_line
from controller.metadata.acl_filters import PatternType, Permission, code_name
from controller.metadata.image.acls import Acl
from protocol.registry import api
from protocol.serving.authorization import Operation, ResourceType
from protocol.serving.request_context import RequestContext

_log = logging.getLogger("barnabas.authorizer")

LINES_PER_SECOND: Final = 100
"""Of each level."""

_TYPE_NAMES: Final[Mapping[int, str]] = MappingProxyType(
    {
        ResourceType.TOPIC: "Topic",
        ResourceType.GROUP: "Group",
        ResourceType.CLUSTER: "Cluster",
        ResourceType.TRANSACTIONAL_ID: "TransactionalId",
        ResourceType.DELEGATION_TOKEN: "DelegationToken",
        ResourceType.USER: "User",
    }
)


class AuditLog:
    """Writes the lines of one authorizer."""

    def __init__(self) -> None:
        self._second = -1
        self._lines: Counter[int] = Counter()
        self._left_out: Counter[int] = Counter()

    def decided(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        rule: Acl | Enum,
        *,
        is_allowed: bool,
    ) -> None:
        """rule: the entry that has decided, or the rule that holds without one."""
        level = logging.DEBUG if is_allowed else logging.INFO
        if not _log.isEnabledFor(level) or not self._has_room(level, context.now_ms):
            return
        session = context.session
        left_out = self._left_out.pop(level, 0)
        _log.log(
            level,
            "Principal = %s is %s operation = %s from host = %s on resource = %s:LITERAL:%s for request = %s "
            "with resourceRefCount = 1 based on rule %s%s",
            _shown(str(session.principal)),
            "Allowed" if is_allowed else "Denied",
            operation.name,
            session.host,
            _TYPE_NAMES[resource],
            _shown(name),
            api(context.api_key).name,
            rule.value if isinstance(rule, Enum) else _of_entry(rule),
            f" ({left_out} such lines were left out before)" if left_out else "",
        )

    def _has_room(self, level: int, now_ms: int) -> bool:
        second = now_ms // 1000
        if second != self._second:
            self._second = second
            self._lines.clear()
        if self._lines[level] >= LINES_PER_SECOND:
            self._left_out[level] += 1
            return False
        self._lines[level] += 1
        return True


def _shown(text: str) -> str:
    """A text that a client has chosen, in one line and cut."""
    return one_line(text, TOPIC_NAME_LENGTH)


def _of_entry(acl: Acl) -> str:
    return (
        f"MatchingAcl(acl=StandardAcl(resourceType={code_name(ResourceType, acl.resource_type)}, "
        f"resourceName={_shown(acl.resource_name)}, patternType={code_name(PatternType, acl.pattern_type)}, "
        f"principal={_shown(acl.principal)}, host={_shown(acl.host)}, "
        f"operation={code_name(Operation, acl.operation)}, "
        f"permissionType={code_name(Permission, acl.permission_type)}))"
    )
