"""The configs of the authorizer, of principals and of delegation tokens."""

from __future__ import annotations

from typing import Final

from config.definition import CLASS, LONG, LOW, MEDIUM, PASSWORD, PER_BROKER, READ_ONLY, STRING, Definition
from config.validators import NonNull, at_least

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("authorizer.class.name", STRING, "", NonNull(), LOW, READ_ONLY,
        "Which authorizer decides on requests; empty allows everything to everyone."),
    Definition("principal.builder.class", CLASS,
        "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
        None, MEDIUM, PER_BROKER,
        "In Kafka a Java class that makes a principal from a connection."),
    Definition("security.providers", STRING, None, None, LOW, READ_ONLY,
        "In Kafka Java security providers that are added to the JVM."),
    Definition("delegation.token.secret.key", PASSWORD, None, None, MEDIUM, READ_ONLY,
        "Secret with which delegation tokens are signed; the same on all nodes. Empty "
        "switches tokens off."),
    Definition("delegation.token.max.lifetime.ms", LONG, 604_800_000, at_least(1), MEDIUM, READ_ONLY,
        "Age beyond which a delegation token cannot be renewed."),
    Definition("delegation.token.expiry.time.ms", LONG, 86_400_000, at_least(1), MEDIUM, READ_ONLY,
        "Time until a delegation token expires unless it is renewed."),
    Definition("delegation.token.expiry.check.interval.ms", LONG, 3_600_000, at_least(1), LOW, READ_ONLY,
        "How often expired delegation tokens are removed."),
)
# fmt: on
