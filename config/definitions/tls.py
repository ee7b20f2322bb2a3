"""The configs of TLS: keys, certificates, protocols."""

from __future__ import annotations

from typing import Final

from config.definition import (
    BOOLEAN,
    CLASS,
    LIST,
    LOW,
    MEDIUM,
    PASSWORD,
    PER_BROKER,
    READ_ONLY,
    STRING,
    Definition,
)
from config.validators import Items, OneOf

# fmt: off
# One definition per row: name, type, default, what is allowed, importance, update mode, effect.
DEFINITIONS: Final = (
    Definition("ssl.keystore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "Kind of the key store: JKS, PKCS12 or PEM."),
    Definition("ssl.keystore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "File with the server's key and certificates."),
    Definition("ssl.keystore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the key store."),
    Definition("ssl.keystore.key", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The server's private key in PEM form, in the config itself."),
    Definition("ssl.keystore.certificate.chain", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "The server's certificates in PEM form, in the config itself."),
    Definition("ssl.key.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the private key."),
    Definition("ssl.truststore.type", STRING, "JKS", None, MEDIUM, PER_BROKER,
        "Kind of the trust store: JKS, PKCS12 or PEM."),
    Definition("ssl.truststore.location", STRING, None, None, MEDIUM, PER_BROKER,
        "File with the certificates that are trusted."),
    Definition("ssl.truststore.password", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Password of the trust store."),
    Definition("ssl.truststore.certificates", PASSWORD, None, None, MEDIUM, PER_BROKER,
        "Trusted certificates in PEM form, in the config itself."),
    Definition("ssl.client.auth", STRING,
        "none", OneOf(("required", "requested", "none")), MEDIUM, PER_BROKER,
        "Whether clients must show a certificate (required), may (requested) or are not asked (none)."),
    Definition("ssl.enabled.protocols", LIST, ("TLSv1.2", "TLSv1.3"), Items(), MEDIUM, PER_BROKER,
        "TLS versions that are accepted."),
    Definition("ssl.protocol", STRING, "TLSv1.3", None, MEDIUM, PER_BROKER,
        "Newest TLS version that is offered."),
    Definition("ssl.cipher.suites", LIST, (), Items(), MEDIUM, PER_BROKER,
        "Cipher suites that are accepted; empty means the library's choice."),
    Definition("ssl.endpoint.identification.algorithm", STRING, "https", None, LOW, PER_BROKER,
        "How a server's name is checked against its certificate; empty switches the check off."),
    Definition("ssl.principal.mapping.rules", STRING, "DEFAULT", None, LOW, READ_ONLY,
        "Rules that turn a certificate's name into a principal."),
    Definition("ssl.allow.dn.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a new key store may carry another distinguished name when it is replaced while running."),
    Definition("ssl.allow.san.changes", BOOLEAN, False, None, LOW, READ_ONLY,
        "Whether a new key store may drop alternative names when it is replaced while running."),
    Definition("ssl.keymanager.algorithm", STRING, "SunX509", None, MEDIUM, PER_BROKER,
        "In Kafka the JVM's algorithm for key managers."),
    Definition("ssl.trustmanager.algorithm", STRING, "PKIX", None, MEDIUM, PER_BROKER,
        "In Kafka the JVM's algorithm for trust managers."),
    Definition("ssl.provider", STRING, None, None, MEDIUM, PER_BROKER,
        "In Kafka the JVM's security provider for TLS."),
    Definition("ssl.secure.random.implementation", STRING, None, None, LOW, PER_BROKER,
        "In Kafka the JVM's random number generator for TLS."),
    Definition("ssl.engine.factory.class", CLASS, None, None, LOW, PER_BROKER,
        "In Kafka a Java class that makes TLS engines."),
)
# fmt: on
