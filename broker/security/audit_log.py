"""The log of what clients were denied, as Kafka's `kafka.authorizer.logger`: at INFO what was denied, at
DEBUG what was allowed.

A client that is denied tries again, often without a pause, and names what it likes. So at most
`LINES_PER_SECOND` lines of denials are written in a second, of which one principal gets at most
`LINES_OF_PRINCIPAL`, so that nobody hides what another one does, and of these half for the same operation on
the same type of resource, so that many topics do not hide the one attempt on the cluster. As many are written
of what was allowed, and neither takes from the other. The next line says how many were left out, and a name
is cut.
"""

from __future__ import annotations

import logging
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
from protocol.serving.session import Principal

_log = logging.getLogger("barnabas.authorizer")

LINES_PER_SECOND: Final = 100
"""Of each level."""
LINES_OF_PRINCIPAL: Final = 20
LINES_OF_ATTEMPT: Final = 10
"""About one principal's same operation on the same type of resource."""

_Attempt = tuple[Principal, Operation, ResourceType]

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


class _Budget:
    """The lines of one level that may be written."""

    def __init__(self) -> None:
        self._second = -1
        self._lines = 0
        self._of_principal: dict[Principal, int] = {}
        """The lines of this second; as every principal in it has one, they are at most `LINES_PER_SECOND`."""
        self._of_attempt: dict[_Attempt, int] = {}
        self.left_out = 0
        """The lines that were left out since one was written."""

    def has_room(self, attempt: _Attempt, now_ms: int) -> bool:
        """Whether a line about the attempt may be written, which is counted either way."""
        principal = attempt[0]
        second = now_ms // 1000
        if second != self._second:
            self._second, self._lines, self._of_principal, self._of_attempt = second, 0, {}, {}
        of_principal, of_attempt = self._of_principal.get(principal, 0), self._of_attempt.get(attempt, 0)
        if (
            self._lines >= LINES_PER_SECOND
            or of_principal >= LINES_OF_PRINCIPAL
            or of_attempt >= LINES_OF_ATTEMPT
        ):
            self.left_out += 1
            return False
        self._lines += 1
        self._of_principal[principal] = of_principal + 1
        self._of_attempt[attempt] = of_attempt + 1
        return True


class AuditLog:
    """Writes the lines of one authorizer."""

    def __init__(self) -> None:
        self._denied = _Budget()
        self._allowed = _Budget()

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
        level, budget = (logging.DEBUG, self._allowed) if is_allowed else (logging.INFO, self._denied)
        session = context.session
        if not _log.isEnabledFor(level):
            return
        if not budget.has_room((session.principal, operation, resource), context.now_ms):
            return
        left_out, budget.left_out = budget.left_out, 0
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
