"""What this release does with each config: the one place to change when a config comes to life.

Three answers, and no fourth: honoured (the broker behaves as the text says), not used yet (read, checked and
kept, but nothing depends on it so far), and ignored (it speaks of something that a broker without JVM and
thread pools does not have; the reason is given). A broker config that is set and not honoured is named in a
warning, at the start or when it is set.

A name that stands in neither list below is not used yet.
"""

from __future__ import annotations

import enum
from types import MappingProxyType
from typing import Final

from config.definition import CLIENT_METRICS, GROUP, TOPIC, Definition, PluginConfig


class Effect(enum.Enum):
    """Whether a config has an effect in this release."""

    HONOURED = "honoured"
    NOT_USED_YET = "not used yet"
    IGNORED = "ignored"


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


HONOURED: Final = _names(
    """
    node.id broker.id process.roles broker.rack broker.heartbeat.interval.ms broker.session.timeout.ms
    initial.broker.registration.timeout.ms
    controller.listener.names controller.quorum.voters controller.quorum.bootstrap.servers metadata.log.dir
    controller.quorum.auto.join.enable controller.quorum.election.timeout.ms
    controller.quorum.election.backoff.max.ms controller.quorum.fetch.timeout.ms
    controller.quorum.request.timeout.ms controller.quorum.retry.backoff.ms controller.quorum.fetch.max.bytes
    controller.quorum.fetch.snapshot.max.bytes controller.quorum.append.linger.ms
    metadata.log.segment.bytes metadata.log.segment.ms metadata.log.max.record.bytes.between.snapshots
    metadata.log.max.snapshot.interval.ms metadata.max.idle.interval.ms
    metadata.max.retention.bytes metadata.max.retention.ms internal.metadata.max.batch.size.in.bytes
    unclean.leader.election.enable unclean.leader.election.interval.ms auto.leader.rebalance.enable
    leader.imbalance.check.interval.seconds

    authorizer.class.name early.start.listeners
    listeners advertised.listeners listener.security.protocol.map inter.broker.listener.name
    security.inter.broker.protocol socket.request.max.bytes queued.max.request.bytes
    socket.send.buffer.bytes socket.receive.buffer.bytes socket.listen.backlog.size
    connections.max.idle.ms max.connections max.connections.per.ip max.connections.per.ip.overrides
    max.connection.creation.rate
    ssl.keystore.type ssl.keystore.location ssl.keystore.password ssl.keystore.key
    ssl.keystore.certificate.chain ssl.key.password ssl.truststore.type ssl.truststore.location
    ssl.truststore.password ssl.truststore.certificates ssl.client.auth ssl.enabled.protocols
    ssl.cipher.suites ssl.endpoint.identification.algorithm ssl.principal.mapping.rules
    ssl.allow.dn.changes ssl.allow.san.changes
    connection.failed.authentication.delay.ms connections.max.reauth.ms
    sasl.enabled.mechanisms sasl.jaas.config sasl.server.max.receive.size
    sasl.mechanism.inter.broker.protocol sasl.mechanism.controller.protocol
    request.timeout.ms fetch.max.bytes max.incremental.fetch.session.cache.slots
    max.request.partition.size.limit
    config.providers

    log.dirs log.dir log.segment.bytes log.roll.ms log.roll.hours log.roll.jitter.ms log.roll.jitter.hours
    log.index.size.max.bytes log.index.interval.bytes log.segment.delete.delay.ms
    log.flush.interval.messages log.flush.interval.ms log.flush.scheduler.interval.ms
    log.flush.offset.checkpoint.interval.ms log.flush.start.offset.checkpoint.interval.ms
    log.retention.ms log.retention.minutes log.retention.hours
    log.retention.bytes log.retention.check.interval.ms log.initial.task.delay.ms cordoned.log.dirs
    replica.high.watermark.checkpoint.interval.ms
    log.cleanup.policy log.cleaner.enable log.cleaner.threads log.cleaner.backoff.ms
    log.cleaner.min.cleanable.ratio log.cleaner.min.compaction.lag.ms log.cleaner.max.compaction.lag.ms
    log.cleaner.delete.retention.ms log.cleaner.dedupe.buffer.size log.cleaner.io.buffer.load.factor
    log.cleaner.io.max.bytes.per.second
    num.recovery.threads.per.data.dir log.dir.failure.timeout.ms
    replica.alter.log.dirs.io.max.bytes.per.second
    replica.lag.time.max.ms replica.selector.class
    num.replica.fetchers replica.fetch.min.bytes replica.fetch.max.bytes replica.fetch.response.max.bytes
    replica.fetch.wait.max.ms replica.fetch.backoff.ms replica.socket.timeout.ms
    follower.replication.throttled.rate leader.replication.throttled.rate
    quota.window.num quota.window.size.seconds
    controller.quota.window.num controller.quota.window.size.seconds
    replication.quota.window.num replication.quota.window.size.seconds
    log.message.timestamp.type log.message.timestamp.before.max.ms log.message.timestamp.after.max.ms

    auto.create.topics.enable num.partitions default.replication.factor min.insync.replicas
    message.max.bytes compression.type compression.gzip.level compression.lz4.level compression.zstd.level
    delete.topic.enable create.topic.policy.class.name alter.config.policy.class.name

    group.min.session.timeout.ms group.max.session.timeout.ms group.initial.rebalance.delay.ms
    group.coordinator.rebalance.protocols group.consumer.max.size group.consumer.assignors
    group.consumer.migration.policy group.consumer.regex.refresh.interval.ms
    group.consumer.session.timeout.ms group.consumer.min.session.timeout.ms
    group.consumer.max.session.timeout.ms group.consumer.heartbeat.interval.ms
    group.consumer.min.heartbeat.interval.ms group.consumer.max.heartbeat.interval.ms
    group.consumer.assignment.interval.ms group.consumer.min.assignment.interval.ms
    group.consumer.max.assignment.interval.ms
    group.max.size offsets.topic.num.partitions offsets.topic.replication.factor
    offsets.topic.segment.bytes offsets.commit.timeout.ms offsets.retention.minutes
    offsets.retention.check.interval.ms offset.metadata.max.bytes offsets.load.buffer.size
    producer.id.expiration.ms producer.id.expiration.check.interval.ms
    transaction.max.timeout.ms transactional.id.expiration.ms
    transaction.abort.timed.out.transaction.cleanup.interval.ms
    transaction.remove.expired.transaction.cleanup.interval.ms transaction.partition.verification.enable
    transaction.state.log.num.partitions
    transaction.state.log.replication.factor transaction.state.log.min.isr
    transaction.state.log.segment.bytes transaction.state.log.load.buffer.size
    add.partitions.to.txn.retry.backoff.ms add.partitions.to.txn.retry.backoff.max.ms

    barnabas.record.validation barnabas.recovery.corrupt barnabas.admin.listener barnabas.log.format
    """
)
"""The broker configs that have the effect that their documentation says."""

HONOURED_FOR_PLUGINS: Final = _names("config.providers. super.users allow.everyone.if.no.acl.found")

HONOURED_BY_TOPICS: Final = _names(
    """
    cleanup.policy compression.type compression.gzip.level compression.lz4.level compression.zstd.level
    delete.retention.ms max.compaction.lag.ms min.cleanable.dirty.ratio min.compaction.lag.ms
    file.delete.delay.ms flush.messages flush.ms follower.replication.throttled.replicas
    leader.replication.throttled.replicas
    index.interval.bytes internal.segment.bytes max.message.bytes
    message.timestamp.after.max.ms message.timestamp.before.max.ms message.timestamp.type
    min.insync.replicas retention.bytes retention.ms segment.bytes segment.index.bytes segment.jitter.ms
    segment.ms unclean.leader.election.enable
    """
)
"""The topic configs that have the effect that their documentation says."""

HONOURED_BY_GROUPS: Final = _names(
    "consumer.session.timeout.ms consumer.heartbeat.interval.ms consumer.assignment.interval.ms"
)
HONOURED_BY_CLIENT_METRICS: Final[frozenset[str]] = frozenset()

_REASONS: Final = (
    (
        "one event loop does what Kafka's thread pools do",
        """num.network.threads num.io.threads background.threads queued.max.requests
        group.coordinator.threads group.coordinator.background.threads share.coordinator.threads""",
    ),
    (
        "it names a Java class, and there is no JVM to load it",
        """client.quota.callback.class
        principal.builder.class group.share.persister.class.name
        sasl.server.callback.handler.class sasl.client.callback.handler.class
        sasl.login.callback.handler.class sasl.login.class
        sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class
        remote.log.storage.manager.class.name remote.log.storage.manager.class.path
        remote.log.metadata.manager.class.name remote.log.metadata.manager.class.path""",
    ),
    (
        "it is for a Java class, and there is no JVM to load it",
        "rsm.config.",
    ),
    (
        "it tunes the JVM's security providers, and there is no JVM",
        """security.providers ssl.provider ssl.engine.factory.class ssl.secure.random.implementation
        ssl.keymanager.algorithm ssl.trustmanager.algorithm""",
    ),
    (
        "metrics are read at /metrics of the admin listener, not pushed by reporters",
        """metric.reporters metrics.num.samples metrics.sample.window.ms metrics.recording.level
        kafka.metrics.reporters kafka.metrics.polling.interval.secs
        metrics.jmx.include metrics.jmx.exclude metrics.context.
        kafka.csv.metrics.dir kafka.csv.metrics.reporter.enabled""",
    ),
    (
        "a waiting request is removed the moment that it is answered, so nothing is left to sweep",
        """fetch.purgatory.purge.interval.requests producer.purgatory.purge.interval.requests
        delete.records.purgatory.purge.interval.requests share.fetch.purgatory.purge.interval.requests""",
    ),
    (
        "write buffers are not kept for later",
        "group.coordinator.cached.buffer.max.bytes share.coordinator.cached.buffer.max.bytes",
    ),
)

REASONS_IGNORED: Final = MappingProxyType(
    {name: reason for reason, names in _REASONS for name in names.split()}
)
"""Broker configs without a meaning here, and keys for plug-ins, each with the reason."""


def effect_of(definition: Definition | PluginConfig) -> Effect:
    """The effect of the config in this release."""
    if isinstance(definition, PluginConfig):
        if definition.name in REASONS_IGNORED:
            return Effect.IGNORED
        honoured = HONOURED_FOR_PLUGINS
    elif definition.update_mode is TOPIC:
        honoured = HONOURED_BY_TOPICS
    elif definition.update_mode is GROUP:
        honoured = HONOURED_BY_GROUPS
    elif definition.update_mode is CLIENT_METRICS:
        honoured = HONOURED_BY_CLIENT_METRICS
    elif definition.name in REASONS_IGNORED:
        return Effect.IGNORED
    else:
        honoured = HONOURED
    return Effect.HONOURED if definition.name in honoured else Effect.NOT_USED_YET


def documentation(definition: Definition) -> str:
    """The documentation of the config, and whether it has that effect yet; DescribeConfigs and `config check`
    show it."""
    effect = effect_of(definition)
    if effect is Effect.HONOURED:
        return definition.text
    if effect is Effect.IGNORED:
        return f"{definition.text} Ignored: {REASONS_IGNORED[definition.name]}."
    return f"{definition.text} Not used yet."
