import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.apache.kafka.clients.admin.AbortTransactionSpec;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.ListTransactionsOptions;
import org.apache.kafka.clients.admin.TransactionState;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/**
 * Java's transactional producers, their consumers and the admin, as another program directs them.
 *
 * A line on standard input is a call, its words with tabs between them. The answer is a line too: "ok" and
 * what was found, or "error", the exception's name and its message.
 */
public final class TransactionClients {
    private static final String FEATURE = "transaction.version";
    private static final Duration PATIENCE = Duration.ofSeconds(45);

    private final String servers;
    private final Admin admin;
    private final Map<String, KafkaProducer<String, String>> producers = new HashMap<>();
    private final Map<String, KafkaConsumer<String, String>> consumers = new HashMap<>();
    private final Map<String, ConsumerGroupMetadata> left = new HashMap<>();

    private TransactionClients(String servers) {
        this.servers = servers;
        this.admin = Admin.create(Map.of("bootstrap.servers", servers));
    }

    public static void main(String[] arguments) throws Exception {
        var clients = new TransactionClients(arguments[0]);
        var calls = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = calls.readLine(); line != null; line = calls.readLine()) {
            System.out.println(clients.answer(line.split("\t")).replace('\n', ' '));
            System.out.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private String answer(String[] words) {
        try {
            var found = call(words[0], Arrays.copyOfRange(words, 1, words.length));
            return Stream.concat(Stream.of("ok"), found).reduce((one, next) -> one + "\t" + next).get();
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            return "error\t" + cause.getClass().getSimpleName() + "\t" + cause.getMessage();
        }
    }

    private Stream<String> call(String name, String[] words) throws Exception {
        switch (name) {
            case "producer" -> initialize(words);
            case "begin" -> producers.get(words[0]).beginTransaction();
            case "commit" -> producers.get(words[0]).commitTransaction();
            case "abort" -> producers.get(words[0]).abortTransaction();
            case "send offsets" -> producers.get(words[0]).sendOffsetsToTransaction(
                    offset(words[2], words[3], words[4]),
                    left.containsKey(words[1]) ? left.get(words[1]) : consumers.get(words[1]).groupMetadata());
            case "subscribe" -> subscribe(words);
            case "leave" -> leave(words[0]);
            case "configure" -> configure(words[0], words.length > 1 ? words[1] : null);
            case "level" -> setLevel(Short.parseShort(words[0]));
            case "fence" -> admin.fenceProducers(List.of(words[0])).all().get();
            case "abort hanging" -> admin.abortTransaction(new AbortTransactionSpec(partition(words[0], words[1]),
                    Long.parseLong(words[2]), Short.parseShort(words[3]), Integer.parseInt(words[4]))).all().get();
            case "send" -> {
                return send(words);
            }
            case "take" -> {
                return take(consumers.get(words[0]), Integer.parseInt(words[1]));
            }
            case "committed" -> {
                return committed(words);
            }
            case "offset" -> {
                return offsetOf(words);
            }
            case "read" -> {
                return read(words[0], Integer.parseInt(words[1]), words[2]);
            }
            case "list" -> {
                return list(words);
            }
            case "describe" -> {
                return describe(words[0]);
            }
            case "producers" -> {
                return producersOf(partition(words[0], words[1]));
            }
            default -> throw new IllegalArgumentException(name);
        }
        return Stream.of();
    }

    private static TopicPartition partition(String topic, String number) {
        return new TopicPartition(topic, Integer.parseInt(number));
    }

    private static Map<TopicPartition, OffsetAndMetadata> offset(String topic, String number, String offset) {
        return Map.of(partition(topic, number), new OffsetAndMetadata(Long.parseLong(offset)));
    }

    private Map<String, Object> settings(String[] words, int from) {
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", servers));
        for (int i = from; i < words.length; i++) {
            var pair = words[i].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        return settings;
    }

    /** Words: the producer's name, settings. */
    private void initialize(String[] words) {
        var producer = new KafkaProducer<>(settings(words, 1), new StringSerializer(), new StringSerializer());
        producers.put(words[0], producer);
        if (Stream.of(words).anyMatch(word -> word.startsWith("transactional.id="))) producer.initTransactions();
    }

    /** Words: the producer's name, topic, partition, values. They are acknowledged; the answer is their offsets. */
    private Stream<String> send(String[] words) throws Exception {
        var answers = new ArrayList<Future<RecordMetadata>>();
        for (int i = 3; i < words.length; i++) {
            answers.add(producers.get(words[0]).send(
                    new ProducerRecord<>(words[1], Integer.parseInt(words[2]), null, words[i])));
        }
        var offsets = new ArrayList<String>();
        for (var answer : answers) offsets.add(String.valueOf(answer.get().offset()));
        return offsets.stream();
    }

    /** Words: the consumer's name, topic, settings. */
    private void subscribe(String[] words) {
        var consumer = new KafkaConsumer<>(settings(words, 2), new StringDeserializer(), new StringDeserializer());
        consumers.put(words[0], consumer);
        left.remove(words[0]);
        consumer.subscribe(List.of(words[1]));
    }

    /** The consumer is gone. Producers may go on to speak in its name. */
    private void leave(String name) {
        left.put(name, consumers.get(name).groupMetadata());
        consumers.remove(name).close();
    }

    /** A config of all brokers; without a value its own one comes back. */
    private void configure(String name, String value) throws Exception {
        var kind = value == null ? AlterConfigOp.OpType.DELETE : AlterConfigOp.OpType.SET;
        var brokers = new ConfigResource(ConfigResource.Type.BROKER, "");
        admin.incrementalAlterConfigs(Map.of(brokers, List.of(new AlterConfigOp(new ConfigEntry(name, value), kind))))
                .all().get();
    }

    /** The cluster's level of transaction.version, and the broker tells clients of it. */
    private void setLevel(short level) throws Exception {
        var finalized = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
        var present = finalized.containsKey(FEATURE) ? finalized.get(FEATURE).maxVersionLevel() : 0;
        if (present == level) return;
        var kind = level > present ? FeatureUpdate.UpgradeType.UPGRADE : FeatureUpdate.UpgradeType.SAFE_DOWNGRADE;
        admin.updateFeatures(Map.of(FEATURE, new FeatureUpdate(level, kind)), new UpdateFeaturesOptions()).all().get();
        while (present != level) {
            finalized = admin.describeFeatures().featureMetadata().get().finalizedFeatures();
            present = finalized.containsKey(FEATURE) ? finalized.get(FEATURE).maxVersionLevel() : 0;
        }
    }

    private static Stream<String> take(KafkaConsumer<String, String> consumer, int count) {
        var values = new ArrayList<String>();
        long deadline = System.currentTimeMillis() + PATIENCE.toMillis();
        while (values.size() < count) {
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("came: " + values.size());
            consumer.poll(Duration.ofMillis(100)).forEach(record -> values.add(record.value()));
        }
        return values.stream();
    }

    /** Words: the consumer's name, topic, partition, milliseconds to wait until the offset is stable. */
    private Stream<String> committed(String[] words) {
        var partition = partition(words[1], words[2]);
        var patience = Duration.ofMillis(Long.parseLong(words[3]));
        return shown(consumers.get(words[0]).committed(Set.of(partition), patience).get(partition));
    }

    /** Words: group, topic, partition. What is committed, whatever is pending. */
    private Stream<String> offsetOf(String[] words) throws Exception {
        var offsets = admin.listConsumerGroupOffsets(words[0]).partitionsToOffsetAndMetadata().get();
        return shown(offsets.get(partition(words[1], words[2])));
    }

    private static Stream<String> shown(OffsetAndMetadata found) {
        return Stream.of(found == null ? "none" : String.valueOf(found.offset()));
    }

    /** The values of each partition, up to what the isolation level shows as its end. */
    private Stream<String> read(String topic, int count, String isolation) {
        var partitions = IntStream.range(0, count).mapToObj(number -> new TopicPartition(topic, number)).toList();
        var values = new HashMap<TopicPartition, List<String>>();
        partitions.forEach(partition -> values.put(partition, new ArrayList<>()));
        var settings = settings(new String[] {"isolation.level=" + isolation}, 0);
        try (var consumer = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.assign(partitions);
            consumer.seekToBeginning(partitions);
            var ends = consumer.endOffsets(partitions);
            while (partitions.stream().anyMatch(each -> consumer.position(each) < ends.get(each))) {
                consumer.poll(Duration.ofMillis(100)).forEach(record -> values
                        .get(new TopicPartition(topic, record.partition())).add(record.value()));
            }
        }
        return partitions.stream().map(partition -> String.join(",", values.get(partition)));
    }

    /** Words: filters. The answer: id and state of each transaction, by id. */
    private Stream<String> list(String[] words) throws Exception {
        var options = new ListTransactionsOptions();
        for (var word : words) {
            var pair = word.split("=", 2);
            switch (pair[0]) {
                case "state" -> options.filterStates(List.of(TransactionState.parse(pair[1])));
                case "producer" -> options.filterProducerIds(List.of(Long.parseLong(pair[1])));
                case "longer" -> options.filterOnDuration(Long.parseLong(pair[1]));
                case "pattern" -> options.filterOnTransactionalIdPattern(pair[1]);
                default -> throw new IllegalArgumentException(word);
            }
        }
        return admin.listTransactions(options).all().get().stream()
                .map(each -> each.transactionalId() + " " + each.state()).sorted();
    }

    /** State, producer id, epoch, timeout and partitions of a transactional id. */
    private Stream<String> describe(String transactionalId) throws Exception {
        var found = admin.describeTransactions(List.of(transactionalId)).all().get().get(transactionalId);
        var partitions = found.topicPartitions().stream().map(String::valueOf).sorted().toList();
        return Stream.of(found.state(), found.producerId(), found.producerEpoch(), found.transactionTimeoutMs(),
                String.join(",", partitions)).map(String::valueOf);
    }

    /** Id, epoch, coordinator's epoch and start of the transaction, of each producer that has one open. */
    private Stream<String> producersOf(TopicPartition partition) throws Exception {
        return admin.describeProducers(List.of(partition)).all().get().get(partition).activeProducers().stream()
                .filter(each -> each.currentTransactionStartOffset().isPresent())
                .map(each -> each.producerId() + " " + each.producerEpoch() + " " + each.coordinatorEpoch().orElse(-1)
                        + " " + each.currentTransactionStartOffset().getAsLong());
    }
}
