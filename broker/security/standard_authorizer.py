"""Kafka's StandardAuthorizer: decides by the access control entries of the metadata log. KIP-801, KIP-290.

In this order, and the first that holds decides:

    the client is this very node             allowed: its two roles speak to each other within the process
    the principal is one of super.users      allowed
    an entry that applies denies it          denied
    an entry that applies allows it          allowed
    no entry is about the resource           as `allow.everyone.if.no.acl.found` says
    otherwise                                denied

An entry applies if its pattern matches the resource, its principal is the client's or `User:*`, and its host
is the client's address or `*`. Whoever may READ, WRITE, DELETE or ALTER may DESCRIBE, and whoever may
ALTER_CONFIGS may DESCRIBE_CONFIGS; a denial of the former denies only that. An entry whose permission is not
ALLOW denies, even if nobody knows its code.

The entries are those of the image that the role shows at that moment, so there is nothing to keep up to date,
and a new image ends with its `LaneEpoch` what the fast lanes remember. Until the first image is loaded nobody
but super users gets an answer.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final

from broker.security.audit_log import AuditLog
from broker.security.remembered_rules import RememberedRules
from config.setting import one_line
from controller.metadata.image.acls import ALLOW, LITERAL, PREFIXED, WILDCARD, Acl, AclsImage
from protocol.serving.authorization import AuthorizerNotReady, Operation, ResourceType
from protocol.serving.request_context import RequestContext

__all__ = ["DefaultRule", "StandardAuthorizer", "deciding_rule", "may_do_somewhere"]

_log = logging.getLogger("barnabas.authorizer")

EVERYBODY: Final = "User:*"

_ALL: Final = int(Operation.ALL)
_IMPLYING: Final[Mapping[int, tuple[Operation, ...]]] = MappingProxyType(
    {
        Operation.DESCRIBE: (Operation.READ, Operation.WRITE, Operation.DELETE, Operation.ALTER),
        Operation.DESCRIBE_CONFIGS: (Operation.ALTER_CONFIGS,),
    }
)
_ALLOWING: Final[Mapping[int, frozenset[int]]] = MappingProxyType(
    {int(each): frozenset(map(int, (Operation.ALL, each, *_IMPLYING.get(each, ())))) for each in Operation}
)
"""By operation, the operations of entries that allow it."""


class DefaultRule(Enum):
    """What decides if no entry does, in Kafka's words."""

    SUPER_USER = "SuperUser"
    ALLOW = "DefaultAllow"
    DENY = "DefaultDeny"


def deciding_rule(
    acls: AclsImage, principal: str, host: str, operation: int, resource: int, name: str
) -> Acl | DefaultRule | None:
    """The entry that decides, `DefaultRule.DENY` if entries are about the resource and none of them applies,
    None if there is none about it. principal: as `User:alice`. host: as `plain_host` writes it."""
    allowing, allowed_by, is_mentioned = _ALLOWING[operation], None, False
    for entries in acls.applying(resource, name):
        is_mentioned = True
        for who in (principal, EVERYBODY):
            for acl in entries.get(who, ()):
                if acl.host not in (WILDCARD, host):
                    continue
                if acl.permission_type != ALLOW:
                    if acl.operation in (operation, _ALL):
                        return acl
                elif acl.operation in allowing:
                    allowed_by = acl
    if allowed_by is not None:
        return allowed_by
    return DefaultRule.DENY if is_mentioned else None


def may_do_somewhere(acls: AclsImage, principal: str, host: str, operation: int, resource: int) -> bool:
    """Whether entries allow the operation on some name and no denial covers all that they allow (KIP-679)."""
    allowed: dict[tuple[int, str], None] = {}
    denied: set[tuple[int, str]] = set()
    for who in (principal, EVERYBODY):
        for pattern in acls.patterns_of.get((resource, who), ()):
            for acl in acls.by_pattern[pattern][who]:
                if acl.host not in (WILDCARD, host) or acl.operation not in (operation, _ALL):
                    continue
                if acl.permission_type == ALLOW:
                    allowed[pattern[1:]] = None
                else:
                    denied.add(pattern[1:])
    if (LITERAL, WILDCARD) in denied:
        return False
    return (LITERAL, WILDCARD) in allowed or any(
        not _is_covered(pattern_type, name, denied) for pattern_type, name in allowed
    )


def _is_covered(pattern_type: int, name: str, denied: set[tuple[int, str]]) -> bool:
    """Whether one of the denials covers all that a pattern allows."""
    if pattern_type == LITERAL and (LITERAL, name) in denied:
        return True
    return any((PREFIXED, name[:length]) in denied for length in range(1, len(name) + 1))


class StandardAuthorizer:
    """The authorizer of one role of a node (`protocol.serving.authorization.Authorizer`).

    acls: the entries that the role knows now. is_loaded: whether it has caught up with the metadata log;
    once it has, it is not asked again.
    """

    def __init__(
        self,
        acls: Callable[[], AclsImage],
        is_loaded: Callable[[], bool],
        *,
        super_users: frozenset[str],
        allows_everyone_without_acls: bool,
    ) -> None:
        self._acls = acls
        self._is_loaded = is_loaded
        self._has_loaded = False
        self._has_told_of_early = False
        self._super_users = super_users
        self._default = DefaultRule.ALLOW if allows_everyone_without_acls else DefaultRule.DENY
        self._audit = AuditLog()
        self._known = RememberedRules()
        """Rules that were found by `_known_by`."""
        self._known_by: AclsImage | None = None

    def authorize(
        self,
        context: RequestContext,
        operation: Operation,
        resource: ResourceType,
        name: str,
        in_earnest: bool = True,
    ) -> bool:
        """See `protocol.serving.authorization.Authorizer`."""
        session = context.session
        if session.is_in_process:
            return True
        principal = str(session.principal)
        rule: Acl | Enum
        if principal in self._super_users:
            rule = DefaultRule.SUPER_USER
        else:
            rule = self._rule(principal, session.host, operation, resource, name)
        if isinstance(rule, Enum):
            is_allowed = rule is not DefaultRule.DENY
        else:
            is_allowed = rule.permission_type == ALLOW
        if in_earnest:
            self._audit.decided(context, operation, resource, name, rule, is_allowed=is_allowed)
        return is_allowed

    def authorize_any(self, context: RequestContext, operation: Operation, resource: ResourceType) -> bool:
        """See `protocol.serving.authorization.Authorizer`. A name that nobody uses is asked first, for super
        users and for clusters without entries, as Kafka does."""
        if self.authorize(context, operation, resource, "hardcode", False):
            return True
        principal, host = str(context.session.principal), context.session.host
        return may_do_somewhere(self._loaded_acls(principal), principal, host, operation, resource)

    def _rule(
        self, principal: str, host: str, operation: Operation, resource: ResourceType, name: str
    ) -> Acl | Enum:
        acls = self._loaded_acls(principal)
        if acls is not self._known_by:
            self._known, self._known_by = RememberedRules(), acls
        question = (operation, resource, name)
        rule = self._known.find(principal, host, question)
        if rule is None:
            rule = deciding_rule(acls, principal, host, operation, resource, name) or self._default
            self._known.keep(principal, host, question, rule)
        return rule

    def _loaded_acls(self, principal: str) -> AclsImage:
        if not self._has_loaded:
            if not self._is_loaded():
                self._tell_of_early(principal)
                raise AuthorizerNotReady("the access control entries are not loaded yet")
            self._has_loaded = True
        return self._acls()

    def _tell_of_early(self, principal: str) -> None:
        """Logs this once. Controllers that are no super users of each other never elect a leader, and nobody
        else would say why."""
        if not self._has_told_of_early:
            self._has_told_of_early = True
            _log.warning(
                "%s asks before the access control entries are loaded, and is told to try again. If that is "
                "a broker or a controller, name it in super.users of every node, or the nodes may wait for "
                "each other without end",
                one_line(principal),
            )
