import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import java.util.function.BooleanSupplier;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.OffsetSpec;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** What an application does with Apache Kafka's own Java client. Prints one line a finding: name, tab, value. */
public final class ClientTour {
    private static final Duration POLL = Duration.ofMillis(100);
    private static final long PATIENCE_MS = 90_000;

    private final String servers;
    private final Admin admin;

    private ClientTour(String servers) {
        this.servers = servers;
        this.admin = Admin.create(Map.of("bootstrap.servers", servers));
    }

    public static void main(String[] arguments) throws Exception {
        var tour = new ClientTour(arguments[0]);
        for (int i = 1; i < arguments.length; i++) {
            switch (arguments[i]) {
                case "admin" -> tour.adminTour();
                case "producer" -> tour.producerTour();
                case "consumer" -> tour.consumerTour();
                case "groups" -> tour.groupsTour();
                case "transactions" -> tour.transactionsTour();
                case "new-protocol" -> tour.newProtocolTour();
                default -> throw new IllegalArgumentException(arguments[i]);
            }
        }
        tour.admin.close();
    }

    private static void found(String name, Object value) {
        System.out.println(name + "\t" + String.valueOf(value).replace('\n', ' '));
    }

    private interface Call {
        void run() throws Exception;
    }

    private static void refused(String name, Call call) {
        long before = System.nanoTime();
        try {
            call.run();
            found(name, "no error");
        } catch (Exception error) {
            Throwable cause = error instanceof ExecutionException ? error.getCause() : error;
            found(name, cause.getClass().getSimpleName() + ": " + cause.getMessage());
        }
        found(name + " ms", (System.nanoTime() - before) / 1_000_000);
    }

    private static void await(String what, BooleanSupplier condition) {
        long deadline = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.getAsBoolean()) {
            if (System.currentTimeMillis() > deadline) throw new IllegalStateException("never: " + what);
        }
    }

    private void create(String topic, int partitions) throws Exception {
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1))).all().get();
        await(topic, () -> {
            try {
                return admin.listTopics().names().get().contains(topic);
            } catch (Exception error) {
                throw new IllegalStateException(error);
            }
        });
    }

    private KafkaProducer<String, String> producer(Map<String, Object> extra) {
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", servers));
        settings.putAll(extra);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    private KafkaConsumer<String, String> consumer(String group, Map<String, Object> extra) {
        var settings = new HashMap<String, Object>(Map.of(
                "bootstrap.servers", servers, "group.id", group, "auto.offset.reset", "earliest",
                "enable.auto.commit", "false", "heartbeat.interval.ms", "300", "session.timeout.ms", "60000"));
        settings.putAll(extra);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    private void adminTour() throws Exception {
        var cluster = admin.describeCluster();
        found("cluster id length", cluster.clusterId().get().length());
        found("nodes", cluster.nodes().get().size());
        found("controller", cluster.controller().get().id());
        create("java-admin", 3);
        var described = admin.describeTopics(List.of("java-admin")).allTopicNames().get().get("java-admin");
        found("partitions", described.partitions().size());
        found("leader", described.partitions().get(2).leader().id());
        found("topic by id", admin.describeTopics(
                org.apache.kafka.common.TopicCollection.ofTopicIds(List.of(described.topicId())))
                .allTopicIds().get().get(described.topicId()).name());
        refused("create twice", () -> admin.createTopics(List.of(new NewTopic("java-admin", 1, (short) 1))).all().get());
        found("latest", admin.listOffsets(Map.of(new TopicPartition("java-admin", 0), OffsetSpec.latest()))
                .all().get().values().iterator().next().offset());
        found("voters", admin.describeMetadataQuorum().quorumInfo().get().voters().size());
        admin.deleteTopics(List.of("java-admin")).all().get();
        refused("delete twice", () -> admin.deleteTopics(List.of("java-admin")).all().get());
        refused("not served", () -> admin.describeDelegationToken().delegationTokens().get());
    }

    private void producerTour() throws Exception {
        create("java-producer", 1);
        try (var producer = producer(Map.of("linger.ms", "5", "compression.type", "zstd"))) {
            var answers = new ArrayList<Future<RecordMetadata>>();
            for (int i = 0; i < 5000; i++) {
                var record = new ProducerRecord<>("java-producer", 0, 1_700_000_000_000L + i, "k" + i, "v" + i);
                record.headers().add("number", String.valueOf(i).getBytes(StandardCharsets.UTF_8));
                record.headers().add("null", null);
                answers.add(producer.send(record));
            }
            long inOrder = 0;
            for (int i = 0; i < answers.size(); i++) if (answers.get(i).get().offset() == i) inOrder++;
            found("in order", inOrder);
            refused("too large", () -> {
                try (var large = producer(Map.of("max.request.size", "5000000"))) {
                    large.send(new ProducerRecord<>("java-producer", "x".repeat(2_000_000))).get();
                }
            });
            found("after it", producer.send(new ProducerRecord<>("java-producer", "last")).get().offset());
            refused("bad name", () -> producer.send(new ProducerRecord<>("nicht/erlaubt", "x")).get());
        }
    }

    private void consumerTour() throws Exception {
        var partition = new TopicPartition("java-producer", 0);
        try (var consumer = consumer("java-reader", Map.of("isolation.level", "read_committed"))) {
            consumer.assign(List.of(partition));
            var records = new ArrayList<ConsumerRecord<String, String>>();
            await("5001 records", () -> {
                consumer.poll(POLL).forEach(records::add);
                return records.size() >= 5001;
            });
            long good = records.stream().limit(5000).filter(record -> record.value().equals("v" + record.offset())
                    && record.key().equals("k" + record.offset())
                    && record.timestamp() == 1_700_000_000_000L + record.offset()
                    && record.leaderEpoch().orElse(-1) == 0
                    && record.headers().lastHeader("null").value() == null
                    && new String(record.headers().lastHeader("number").value()).equals("" + record.offset())).count();
            found("good records", good);
            found("last", records.get(records.size() - 1).value());
            found("beginning", consumer.beginningOffsets(List.of(partition)).get(partition));
            found("end", consumer.endOffsets(List.of(partition)).get(partition));
            var at = consumer.offsetsForTimes(Map.of(partition, 1_700_000_001_234L)).get(partition);
            found("by time", at.offset() + " at " + at.timestamp() + " epoch " + at.leaderEpoch().orElse(-1));
            found("after all", consumer.offsetsForTimes(Map.of(partition, Long.MAX_VALUE / 2)).get(partition));
            consumer.seek(partition, 4321);
            found("sought", consumer.poll(Duration.ofSeconds(60)).iterator().next().offset());
            consumer.commitSync(Map.of(partition, new OffsetAndMetadata(4711, "bis hier")));
            found("committed", consumer.committed(Set.of(partition)).get(partition));
            found("lag known", consumer.currentLag(partition).isPresent());
            consumer.seek(partition, 999_999);
            found("out of range", consumer.poll(Duration.ofSeconds(60)).iterator().next().offset());
        }
        found("by the admin", admin.listConsumerGroupOffsets("java-reader").partitionsToOffsetAndMetadata().get());
    }

    private static final class Watch implements ConsumerRebalanceListener {
        int assigned;
        int revoked;
        int lost;

        @Override
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            assigned += partitions.size();
        }

        @Override
        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            revoked += partitions.size();
        }

        @Override
        public void onPartitionsLost(Collection<TopicPartition> partitions) {
            lost += partitions.size();
        }
    }

    private void groupsTour() throws Exception {
        create("java-groups", 4);
        var cooperative = Map.<String, Object>of("partition.assignment.strategy",
                "org.apache.kafka.clients.consumer.CooperativeStickyAssignor");
        var watch = new Watch();
        try (var one = consumer("java-team", cooperative); var two = consumer("java-team", cooperative)) {
            one.subscribe(List.of("java-groups"), watch);
            await("one has all", () -> {
                one.poll(POLL);
                return one.assignment().size() == 4;
            });
            two.subscribe(List.of("java-groups"));
            await("both share", () -> {
                one.poll(POLL);
                two.poll(POLL);
                return one.assignment().size() == 2 && two.assignment().size() == 2;
            });
            found("revoked", watch.revoked);
            var group = admin.describeConsumerGroups(List.of("java-team")).all().get().get("java-team");
            found("assignor", group.partitionAssignor());
            found("members", group.members().size());
            try (var producer = producer(Map.of())) {
                for (int i = 0; i < 400; i++) producer.send(new ProducerRecord<>("java-groups", "k" + i, "v" + i));
            }
            var seen = new ArrayList<String>();
            await("400 records", () -> {
                one.poll(POLL).forEach(record -> seen.add(record.value()));
                two.poll(POLL).forEach(record -> seen.add(record.value()));
                return seen.size() >= 400;
            });
            found("seen", seen.size() + " of " + Set.copyOf(seen).size());
            one.commitSync();
            two.commitSync();
            two.unsubscribe();
            await("one has all again", () -> {
                one.poll(POLL);
                return one.assignment().size() == 4;
            });
            one.enforceRebalance();
            one.poll(POLL);
            found("lost", watch.lost);
            found("stays", one.groupMetadata().generationId() > 1);
        }
        long sum = admin.listConsumerGroupOffsets("java-team").partitionsToOffsetAndMetadata().get().values()
                .stream().mapToLong(OffsetAndMetadata::offset).sum();
        found("committed in all", sum);
    }

    private void transactionsTour() throws Exception {
        create("java-tx", 1);
        var partition = new TopicPartition("java-tx", 0);
        try (var producer = producer(Map.of("transactional.id", "java-tx"));
                var successor = producer(Map.of("transactional.id", "java-tx"));
                var consumer = consumer("java-tx", Map.of("isolation.level", "read_committed"))) {
            producer.initTransactions();
            for (int i = 0; i < 4; i++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("java-tx", "v" + i, String.valueOf(i)));
                producer.sendOffsetsToTransaction(
                        Map.of(partition, new OffsetAndMetadata(i + 1)), consumer.groupMetadata());
                producer.flush();
                if (i % 2 == 1) producer.commitTransaction();
                else producer.abortTransaction();
            }
            consumer.assign(List.of(partition));
            consumer.seekToBeginning(List.of(partition));
            var seen = new ArrayList<String>();
            await("both records", () -> {
                consumer.poll(POLL).forEach(record -> seen.add(record.value()));
                return seen.size() >= 2;
            });
            found("committed", seen);
            found("offset", consumer.committed(Set.of(partition)).get(partition).offset());
            successor.initTransactions();
            refused("zombie", () -> {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>("java-tx", "late", "late"));
                producer.commitTransaction();
            });
        }
    }

    private void newProtocolTour() throws Exception {
        create("java-new", 4);
        var settings = new HashMap<String, Object>(Map.of("bootstrap.servers", servers, "group.id", "java-newer",
                "group.protocol", "consumer", "auto.offset.reset", "earliest", "enable.auto.commit", "false"));
        var seen = new ArrayList<String>();
        try (var one = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
                var two = new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            one.subscribe(List.of("java-new"));
            await("one has all", () -> {
                one.poll(POLL);
                return one.assignment().size() == 4;
            });
            found("alone", one.assignment().size());
            two.subscribe(List.of("java-new"));
            await("both share", () -> {
                one.poll(POLL);
                two.poll(POLL);
                return one.assignment().size() == 2 && two.assignment().size() == 2;
            });
            found("shared", one.assignment().size() + "+" + two.assignment().size());
            try (var producer = producer(Map.of())) {
                for (int i = 0; i < 40; i++) producer.send(new ProducerRecord<>("java-new", "k" + i, "v" + i));
            }
            await("40 records", () -> {
                one.poll(POLL).forEach(record -> seen.add(record.value()));
                two.poll(POLL).forEach(record -> seen.add(record.value()));
                return seen.size() >= 40;
            });
            found("seen", seen.size() + " of " + Set.copyOf(seen).size());
            one.commitSync();
            two.commitSync();
            two.unsubscribe();
            await("one has all again", () -> {
                one.poll(POLL);
                return one.assignment().size() == 4;
            });
            found("taken over", one.assignment().size());
            var group = admin.describeConsumerGroups(List.of("java-newer")).all().get().get("java-newer");
            found("described", group.type().name() + " " + group.groupState() + " " + group.partitionAssignor());
        }
        long sum = admin.listConsumerGroupOffsets("java-newer").partitionsToOffsetAndMetadata().get().values()
                .stream().mapToLong(OffsetAndMetadata::offset).sum();
        found("committed", sum);
    }
}
