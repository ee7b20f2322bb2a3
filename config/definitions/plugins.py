"""Keys that Kafka's own plug-ins read and that stand in none of its definitions.

Kafka hands every key of a file to each plug-in that it loads, so a plug-in can read what no definition
names. These are all that the plug-ins read which come with the broker of Kafka 4.3; a test looks for more in
its jars. A name with a dot at its end stands for all keys that begin with it. DescribeConfigs does not know
them.
"""

from __future__ import annotations

from typing import Final

from config.definition import PluginConfig

_AUTHORIZER: Final = "Kafka's StandardAuthorizer"
_JMX: Final = "Kafka's JmxReporter"
_CSV: Final = "Kafka's KafkaCSVMetricsReporter"
_SEGMENT_LIST: Final = "Kafka's TopicBasedRemoteLogMetadataManager"

# fmt: off
# One definition per row: name, who reads it, effect, whether its value may be a secret.
DEFINITIONS: Final = (
    PluginConfig("super.users", _AUTHORIZER,
        "Principals that may do everything, as `User:name`, separated by semicolons."),
    PluginConfig("allow.everyone.if.no.acl.found", _AUTHORIZER,
        "Whether a resource without ACLs is open to everyone."),

    PluginConfig("metrics.jmx.include", _JMX, "Pattern of the metrics that are shown over JMX."),
    PluginConfig("metrics.jmx.exclude", _JMX, "Pattern of the metrics that are not shown over JMX."),
    PluginConfig("metrics.context.", "the metrics reporters", "Labels that reporters give to all metrics.",
        may_be_secret=True),
    PluginConfig("kafka.csv.metrics.dir", _CSV, "Directory in which metrics are written as CSV files."),
    PluginConfig("kafka.csv.metrics.reporter.enabled", _CSV, "Whether they are."),

    PluginConfig("config.providers.", "the config provider of that name",
        "Class and parameters of a provider that config.providers names.", may_be_secret=True),

    PluginConfig("sasl.oauthbearer.header.urlencode", "Kafka's ClientCredentialsJwtRetriever",
        "Whether client id and secret are URL-encoded in the broker's own token request."),

    PluginConfig("rlmm.config.remote.log.metadata.topic.replication.factor", _SEGMENT_LIST,
        "Replicas of __remote_log_metadata."),
    PluginConfig("rlmm.config.remote.log.metadata.topic.num.partitions", _SEGMENT_LIST,
        "Partitions of __remote_log_metadata."),
    PluginConfig("rlmm.config.remote.log.metadata.topic.retention.ms", _SEGMENT_LIST,
        "Retention of __remote_log_metadata."),
    PluginConfig("rlmm.config.remote.log.metadata.topic.min.isr", _SEGMENT_LIST,
        "In-sync replicas that a write to __remote_log_metadata needs."),
    PluginConfig("rlmm.config.remote.log.metadata.consume.wait.ms", _SEGMENT_LIST,
        "How long a writer waits until it reads its own record."),
    PluginConfig("rlmm.config.remote.log.metadata.initialization.retry.interval.ms", _SEGMENT_LIST,
        "Pause before a failed start of the list of segments is tried again."),
    PluginConfig("rlmm.config.remote.log.metadata.initialization.retry.max.timeout.ms", _SEGMENT_LIST,
        "How long that is tried."),
    PluginConfig("rlmm.config.remote.log.metadata.common.client.", _SEGMENT_LIST,
        "Configs of its producer, consumer and admin client.", may_be_secret=True),
    PluginConfig("rlmm.config.remote.log.metadata.producer.", _SEGMENT_LIST,
        "Configs of its producer.", may_be_secret=True),
    PluginConfig("rlmm.config.remote.log.metadata.consumer.", _SEGMENT_LIST,
        "Configs of its consumer.", may_be_secret=True),
    PluginConfig("rlmm.config.remote.log.metadata.admin.", _SEGMENT_LIST,
        "Configs of its admin client.", may_be_secret=True),
    PluginConfig("rlmm.config.", "the remote log metadata manager",
        "Whatever it wants to know.", may_be_secret=True),
    PluginConfig("rsm.config.", "the remote storage manager",
        "Whatever the remote store wants to know.", may_be_secret=True),
)
# fmt: on
