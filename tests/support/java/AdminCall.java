import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.ElectionType;
import org.apache.kafka.common.GroupState;
import org.apache.kafka.common.GroupType;
import org.apache.kafka.common.TopicCollection;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.TopicPartitionReplica;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.config.ConfigResource;

/**
 * One call of Java's admin client: the call's name, then its arguments as words. Prints a line a result, sorted,
 * an error as its class and text. `--bootstrap-server ADDRESS` stands last, as with the tools.
 *
 * Words: a topic is `name:partitions:replicas`, `name=1,2;1,2` (an assignment) and `name:1:1:key=value,...`; a
 * partition is `name-0`; a resource is `topic/name`, `broker/1`, `group/g`, `client_metrics/c`; `id:name` is a topic's id.
 */
public final class AdminCall {
    private final Admin admin;
    private final List<String> words;
    private final Set<String> flags;

    private AdminCall(Admin admin, List<String> words) {
        this.admin = admin;
        this.flags = words.stream().filter(word -> word.startsWith("--")).collect(Collectors.toSet());
        this.words = words.stream().filter(word -> !word.startsWith("--")).toList();
    }

    public static void main(String[] arguments) throws Exception {
        var words = new ArrayList<>(Arrays.asList(arguments));
        String name = words.remove(0);
        int at = words.indexOf("--bootstrap-server");
        boolean controller = at < 0;
        if (controller) at = words.indexOf("--bootstrap-controller");
        var settings = new HashMap<String, Object>();
        settings.put(controller ? "bootstrap.controllers" : "bootstrap.servers", words.remove(at + 1));
        settings.put("default.api.timeout.ms", 15_000);
        settings.put("request.timeout.ms", 10_000);
        words.remove(at);
        try (var admin = Admin.create(settings)) {
            new AdminCall(admin, words).run(name);
        } catch (Exception error) {
            say("refused", told(error));
        }
    }

    private static void say(Object name, Object value) {
        System.out.println(name + " = " + value);
    }

    private static String told(Throwable error) {
        Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
        return cause.getClass().getSimpleName() + ": " + cause.getMessage();
    }

    /** Every future's value or error, in the order of the keys' text. */
    private static void each(Map<?, ? extends Future<?>> futures) throws InterruptedException {
        each(futures, value -> value);
    }

    private static <V> void each(Map<?, ? extends Future<? extends V>> futures, Function<V, Object> shown)
            throws InterruptedException {
        var sorted = new TreeMap<String, Future<? extends V>>();
        futures.forEach((key, future) -> sorted.put(key.toString(), future));
        for (var entry : sorted.entrySet()) {
            try {
                V value = entry.getValue().get();
                say(entry.getKey(), value == null ? "done" : shown.apply(value));
            } catch (ExecutionException error) {
                say(entry.getKey(), told(error));
            }
        }
    }

    private static void sorted(Map<?, ?> map) {
        var lines = new TreeMap<String, Object>();
        map.forEach((key, value) -> lines.put(key.toString(), value));
        lines.forEach(AdminCall::say);
    }

    private static void sorted(Collection<?> values) {
        values.stream().map(String::valueOf).sorted().forEach(System.out::println);
    }

    private static TopicPartition partition(String word) {
        int dash = word.lastIndexOf('-');
        return new TopicPartition(word.substring(0, dash), Integer.parseInt(word.substring(dash + 1)));
    }

    private static List<Integer> numbers(String word) {
        return Stream.of(word.split(",")).filter(each -> !each.isEmpty()).map(Integer::valueOf).toList();
    }

    private Set<TopicPartition> partitions(List<String> named) {
        return named.stream().map(AdminCall::partition).collect(Collectors.toSet());
    }

    /** `name=value` words by name; the value may be missing. */
    private static <K, V> Map<K, V> pairs(List<String> named, Function<String, K> key, Function<String, V> value) {
        var found = new HashMap<K, V>();
        for (String word : named) {
            int sign = word.indexOf('=');
            found.put(key.apply(word.substring(0, sign)), value.apply(word.substring(sign + 1)));
        }
        return found;
    }

    private static ConfigResource resource(String word) {
        int slash = word.indexOf('/');
        var type = ConfigResource.Type.valueOf(word.substring(0, slash).toUpperCase());
        return new ConfigResource(type, word.substring(slash + 1));
    }

    private static NewTopic topic(String word) {
        if (word.indexOf('=') > 0 && word.indexOf(':') < 0) {
            var assignment = new HashMap<Integer, List<Integer>>();
            for (String replicas : word.substring(word.indexOf('=') + 1).split(";", -1))
                assignment.put(assignment.size(), numbers(replicas));
            return new NewTopic(word.substring(0, word.indexOf('=')), assignment);
        }
        String[] parts = word.split(":", 4);
        var made = new NewTopic(parts[0], number(parts[1]).map(Integer::valueOf), number(parts[2]).map(Short::valueOf));
        if (parts.length > 3)
            made.configs(pairs(List.of(parts[3].split(",")), each -> each, each -> each.equals("null") ? null : each));
        return made;
    }

    private static Optional<String> number(String word) {
        return word.isEmpty() ? Optional.empty() : Optional.of(word);
    }

    private static OffsetSpec spec(String word) {
        return switch (word) {
            case "earliest" -> OffsetSpec.earliest();
            case "latest" -> OffsetSpec.latest();
            case "max-timestamp" -> OffsetSpec.maxTimestamp();
            case "earliest-local" -> OffsetSpec.earliestLocal();
            case "latest-tiered" -> OffsetSpec.latestTiered();
            case "earliest-pending-upload" -> OffsetSpec.earliestPendingUpload();
            default -> OffsetSpec.forTimestamp(Long.parseLong(word));
        };
    }

    private List<Uuid> ids() throws Exception {
        var found = new ArrayList<Uuid>();
        for (String word : words)
            found.add(word.startsWith("id:")
                    ? admin.describeTopics(List.of(word.substring(3))).allTopicNames().get().get(word.substring(3)).topicId()
                    : Uuid.fromString(word));
        return found;
    }

    private boolean validate() {
        return flags.contains("--validate-only");
    }

    private void run(String name) throws Exception {
        switch (name) {
            case "createTopics", "deleteTopics", "deleteTopicIds", "describeTopics", "describeTopicIds", "listTopics",
                    "createPartitions", "deleteRecords", "listOffsets" -> topics(name);
            case "describeConfigs", "incrementalAlterConfigs", "listConfigResources" -> configs(name);
            case "electLeaders", "alterPartitionReassignments", "listPartitionReassignments", "describeLogDirs",
                    "alterReplicaLogDirs", "describeReplicaLogDirs", "describeProducers" -> replicas(name);
            case "describeCluster", "describeFeatures", "updateFeatures", "describeMetadataQuorum", "unregisterBroker",
                    "addRaftVoter", "removeRaftVoter", "clientInstanceId" -> cluster(name);
            case "listTransactions", "describeTransactions", "abortTransaction", "fenceProducers" -> transactions(name);
            default -> groups(name);
        }
    }

    private void topics(String name) throws Exception {
        switch (name) {
            case "createTopics" -> {
                var result = admin.createTopics(words.stream().map(AdminCall::topic).toList(),
                        new CreateTopicsOptions().validateOnly(validate()));
                each(result.values());
                if (flags.contains("--show")) {
                    var first = topic(words.get(0)).name();
                    say("partitions", result.numPartitions(first).get());
                    say("replication factor", result.replicationFactor(first).get());
                    var entries = new ArrayList<>(result.config(first).get().entries());
                    sorted(entries.stream().map(AdminCall::shown).toList());
                }
            }
            case "deleteTopics" -> each(admin.deleteTopics(words).topicNameValues());
            case "deleteTopicIds" -> each(admin.deleteTopics(TopicCollection.ofTopicIds(ids())).topicIdValues());
            case "describeTopics" -> each(admin.describeTopics(words, new DescribeTopicsOptions()
                    .includeAuthorizedOperations(flags.contains("--operations"))
                    .partitionSizeLimitPerResponse(flags.contains("--small-pages") ? 2 : 2000)).topicNameValues());
            case "describeTopicIds" -> each(admin.describeTopics(TopicCollection.ofTopicIds(ids())).topicIdValues());
            case "listTopics" -> sorted(admin.listTopics(new ListTopicsOptions()
                    .listInternal(flags.contains("--internal"))).listings().get());
            case "createPartitions" -> each(admin.createPartitions(
                    pairs(words, word -> word, AdminCall::newPartitions),
                    new CreatePartitionsOptions().validateOnly(validate())).values());
            case "deleteRecords" -> each(admin.deleteRecords(pairs(words, AdminCall::partition,
                    word -> RecordsToDelete.beforeOffset(Long.parseLong(word)))).lowWatermarks(),
                    deleted -> deleted.lowWatermark());
            case "listOffsets" -> {
                var result = admin.listOffsets(pairs(words, AdminCall::partition, AdminCall::spec));
                var futures = new HashMap<TopicPartition, Future<?>>();
                for (String word : words) {
                    var partition = partition(word.substring(0, word.indexOf('=')));
                    futures.put(partition, result.partitionResult(partition));
                }
                each(futures);
            }
            default -> throw new IllegalArgumentException(name);
        }
    }

    private static NewPartitions newPartitions(String word) {
        String[] parts = word.split(":", 2);
        int count = Integer.parseInt(parts[0]);
        if (parts.length == 1) return NewPartitions.increaseTo(count);
        return NewPartitions.increaseTo(count, Stream.of(parts[1].split(";", -1)).map(AdminCall::numbers).toList());
    }

    private static String shown(ConfigEntry entry) {
        return entry.name() + " = " + entry.value() + " " + entry.source() + " " + entry.type()
                + (entry.isReadOnly() ? " read-only" : "") + (entry.isSensitive() ? " sensitive" : "")
                + entry.synonyms().stream().map(each -> " < " + each.name() + "=" + each.value() + " " + each.source())
                        .collect(Collectors.joining());
    }

    private static String documentation(ConfigEntry entry) {
        String text = entry.documentation();
        return "\ndocumentation of " + entry.name() + ": " + (text == null ? null : text.replaceAll("\\s+", " "));
    }

    private void configs(String name) throws Exception {
        switch (name) {
            case "describeConfigs" -> {
                boolean documented = flags.contains("--documentation");
                var options = new DescribeConfigsOptions().includeSynonyms(!flags.contains("--no-synonyms"))
                        .includeDocumentation(documented);
                var futures = admin.describeConfigs(words.stream().map(AdminCall::resource).toList(), options).values();
                boolean changed = flags.contains("--changed");
                each(futures, config -> "\n" + config.entries().stream()
                        .filter(entry -> !changed || entry.source() != ConfigEntry.ConfigSource.DEFAULT_CONFIG)
                        .map(entry -> shown(entry) + (documented ? documentation(entry) : ""))
                        .sorted().collect(Collectors.joining("\n")));
            }
            case "incrementalAlterConfigs" -> {
                var changes = new HashMap<ConfigResource, Collection<AlterConfigOp>>();
                var resource = resource(words.get(0));
                changes.put(resource, words.stream().skip(1).map(AdminCall::operation).toList());
                each(admin.incrementalAlterConfigs(changes,
                        new AlterConfigsOptions().validateOnly(validate())).values());
            }
            case "listConfigResources" -> sorted(admin.listConfigResources(
                    words.stream().map(String::toUpperCase).map(ConfigResource.Type::valueOf)
                            .collect(Collectors.toSet()), new ListConfigResourcesOptions()).all().get());
            default -> throw new IllegalArgumentException(name);
        }
    }

    /** `set:name=value`, `append:name=value`, `subtract:name=value`, `delete:name`. */
    private static AlterConfigOp operation(String word) {
        String[] parts = word.split("[:=]", 3);
        String value = parts.length > 2 ? parts[2] : null;
        return new AlterConfigOp(new ConfigEntry(parts[1], value), AlterConfigOp.OpType.valueOf(parts[0].toUpperCase()));
    }

    private void replicas(String name) throws Exception {
        switch (name) {
            case "electLeaders" -> {
                var type = ElectionType.valueOf(words.get(0).toUpperCase());
                var which = flags.contains("--all") ? null : partitions(words.subList(1, words.size()));
                sorted(admin.electLeaders(type, which).partitions().get());
            }
            case "alterPartitionReassignments" -> each(admin.alterPartitionReassignments(
                    pairs(words, AdminCall::partition, word -> word.equals("cancel")
                            ? Optional.<NewPartitionReassignment>empty()
                            : Optional.of(new NewPartitionReassignment(numbers(word)))),
                    new AlterPartitionReassignmentsOptions()).values());
            case "listPartitionReassignments" -> sorted(words.isEmpty()
                    ? admin.listPartitionReassignments().reassignments().get()
                    : admin.listPartitionReassignments(partitions(words)).reassignments().get());
            case "describeLogDirs" -> each(admin.describeLogDirs(words.stream().map(Integer::valueOf).toList())
                    .descriptions(), folders -> folders.entrySet().stream().map(folder -> {
                        var size = folder.getValue();
                        return folder.getKey() + " error=" + size.error() + " total=" + size.totalBytes().isPresent()
                                + " usable=" + size.usableBytes().isPresent() + " cordoned=" + size.isCordoned()
                                + new TreeMap<>(size.replicaInfos().entrySet().stream().collect(Collectors
                                        .toMap(entry -> entry.getKey().toString(), Map.Entry::getValue)));
                    }).toList());
            case "alterReplicaLogDirs" -> each(admin.alterReplicaLogDirs(pairs(words, AdminCall::replica,
                    word -> word)).values());
            case "describeReplicaLogDirs" -> each(admin.describeReplicaLogDirs(
                    words.stream().map(AdminCall::replica).toList()).values());
            case "describeProducers" -> {
                var result = admin.describeProducers(partitions(words));
                var futures = new HashMap<TopicPartition, Future<?>>();
                for (var partition : partitions(words)) futures.put(partition, result.partitionResult(partition));
                each(futures);
            }
            default -> throw new IllegalArgumentException(name);
        }
    }

    private void transactions(String name) throws Exception {
        switch (name) {
            case "listTransactions" -> {
                var options = new ListTransactionsOptions();
                for (var entry : pairs(words, each -> each, each -> each).entrySet())
                    switch (entry.getKey()) {
                        case "states" -> options.filterStates(
                                Stream.of(entry.getValue().split(",")).map(TransactionState::parse).toList());
                        case "pattern" -> options.filterOnTransactionalIdPattern(entry.getValue());
                        default -> throw new IllegalArgumentException(entry.getKey());
                    }
                sorted(admin.listTransactions(options).all().get());
            }
            case "describeTransactions" -> {
                var result = admin.describeTransactions(words);
                var futures = new HashMap<String, Future<TransactionDescription>>();
                for (var word : words) futures.put(word, result.description(word));
                each(futures);
            }
            case "abortTransaction" -> {
                var spec = new AbortTransactionSpec(partition(words.get(0)), Long.parseLong(words.get(1)),
                        Short.parseShort(words.get(2)), Integer.parseInt(words.get(3)));
                each(Map.of(words.get(0), admin.abortTransaction(spec).all()));
            }
            case "fenceProducers" -> each(admin.fenceProducers(words).fencedProducers());
            default -> throw new IllegalArgumentException(name);
        }
    }

    /** `name-0@1`: the replica of a partition at a broker. */
    private static TopicPartitionReplica replica(String word) {
        var partition = partition(word.substring(0, word.indexOf('@')));
        return new TopicPartitionReplica(partition.topic(), partition.partition(),
                Integer.parseInt(word.substring(word.indexOf('@') + 1)));
    }

    private void cluster(String name) throws Exception {
        switch (name) {
            case "describeCluster" -> {
                var result = admin.describeCluster(new DescribeClusterOptions()
                        .includeAuthorizedOperations(flags.contains("--operations"))
                        .includeFencedBrokers(flags.contains("--fenced")));
                say("cluster", result.clusterId().get());
                say("controller", result.controller().get());
                say("nodes", result.nodes().get());
                say("operations", result.authorizedOperations().get());
            }
            case "describeFeatures" -> {
                var features = admin.describeFeatures().featureMetadata().get();
                sorted(features.supportedFeatures());
                sorted(features.finalizedFeatures());
            }
            case "updateFeatures" -> {
                var updates = pairs(words, word -> word, AdminCall::featureUpdate);
                each(admin.updateFeatures(updates, new UpdateFeaturesOptions().validateOnly(validate())).values());
            }
            case "describeMetadataQuorum" -> {
                var quorum = admin.describeMetadataQuorum().quorumInfo().get();
                say("leader", quorum.leaderId());
                say("voters", quorum.voters().stream().map(QuorumInfo.ReplicaState::replicaId).toList());
                say("observers", quorum.observers());
                say("nodes", quorum.nodes());
            }
            case "unregisterBroker" -> {
                admin.unregisterBroker(Integer.parseInt(words.get(0))).all().get();
                say("unregistered", words.get(0));
            }
            case "addRaftVoter" -> {
                admin.addRaftVoter(Integer.parseInt(words.get(0)), Uuid.fromString(words.get(1)),
                        Set.of(new RaftVoterEndpoint("CONTROLLER", "127.0.0.1", 9))).all().get();
                say("added", words.get(0));
            }
            case "removeRaftVoter" -> {
                admin.removeRaftVoter(Integer.parseInt(words.get(0)), Uuid.fromString(words.get(1))).all().get();
                say("removed", words.get(0));
            }
            case "clientInstanceId" -> say("id", admin.clientInstanceId(java.time.Duration.ofSeconds(5)));
            default -> throw new IllegalArgumentException(name);
        }
    }

    private static FeatureUpdate featureUpdate(String word) {
        String[] parts = word.split(":");
        return new FeatureUpdate(Short.parseShort(parts[0]), FeatureUpdate.UpgradeType.valueOf(parts[1].toUpperCase()));
    }

    private void groups(String name) throws Exception {
        String first = words.isEmpty() ? "" : words.get(0);
        var rest = words.isEmpty() ? words : words.subList(1, words.size());
        switch (name) {
            case "listGroups" -> {
                var options = new ListGroupsOptions();
                for (var filter : pairs(words, word -> word, word -> Set.of(word.split(","))).entrySet()) {
                    var named = filter.getValue();
                    switch (filter.getKey()) {
                        case "states" -> options.inGroupStates(
                                named.stream().map(GroupState::parse).collect(Collectors.toSet()));
                        case "types" -> options.withTypes(
                                named.stream().map(GroupType::parse).collect(Collectors.toSet()));
                        default -> options.withProtocolTypes(named);
                    }
                }
                sorted(admin.listGroups(options).all().get());
            }
            case "describeConsumerGroups" -> each(admin.describeConsumerGroups(words,
                    new DescribeConsumerGroupsOptions().includeAuthorizedOperations(flags.contains("--operations")))
                    .describedGroups());
            case "describeClassicGroups" -> each(admin.describeClassicGroups(words).describedGroups());
            case "deleteConsumerGroups" -> each(admin.deleteConsumerGroups(words).deletedGroups());
            case "listConsumerGroupOffsets" -> {
                var specs = new HashMap<String, ListConsumerGroupOffsetsSpec>();
                for (String group : words) specs.put(group, new ListConsumerGroupOffsetsSpec());
                var result = admin.listConsumerGroupOffsets(specs);
                var futures = new HashMap<String, Future<?>>();
                for (String group : words) futures.put(group, result.partitionsToOffsetAndMetadata(group));
                each(futures, value -> new TreeMap<>(((Map<?, ?>) value).entrySet().stream()
                        .collect(Collectors.toMap(entry -> entry.getKey().toString(), entry -> String.valueOf(entry.getValue())))));
            }
            case "alterConsumerGroupOffsets" -> {
                var result = admin.alterConsumerGroupOffsets(first,
                        pairs(rest, AdminCall::partition, AdminCall::offset));
                var futures = new HashMap<TopicPartition, Future<?>>();
                for (var partition : pairs(rest, AdminCall::partition, word -> word).keySet())
                    futures.put(partition, result.partitionResult(partition));
                each(futures);
            }
            case "deleteConsumerGroupOffsets" -> {
                var which = partitions(rest);
                var result = admin.deleteConsumerGroupOffsets(first, which);
                var futures = new HashMap<TopicPartition, Future<?>>();
                for (var partition : which) futures.put(partition, result.partitionResult(partition));
                each(futures);
            }
            case "removeMembersFromConsumerGroup" -> {
                var options = rest.isEmpty() ? new RemoveMembersFromConsumerGroupOptions()
                        : new RemoveMembersFromConsumerGroupOptions(
                                rest.stream().map(MemberToRemove::new).collect(Collectors.toSet()));
                admin.removeMembersFromConsumerGroup(first, options).all().get();
                say(first, "removed");
            }
            default -> throw new IllegalArgumentException(name);
        }
    }

    /** `offset` or `offset:epoch:metadata`. */
    private static OffsetAndMetadata offset(String word) {
        String[] parts = word.split(":", 3);
        long offset = Long.parseLong(parts[0]);
        if (parts.length == 1) return new OffsetAndMetadata(offset);
        return new OffsetAndMetadata(offset, number(parts[1]).map(Integer::valueOf), parts[2]);
    }
}
