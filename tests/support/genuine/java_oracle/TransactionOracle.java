package kafka.coordinator.transaction;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import kafka.server.KafkaConfig;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.message.AddPartitionsToTxnResponseData.AddPartitionsToTxnResult;
import org.apache.kafka.common.metrics.Metrics;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.requests.TransactionResult;
import org.apache.kafka.common.utils.LogContext;
import org.apache.kafka.common.utils.ProducerIdAndEpoch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.coordinator.transaction.ProducerIdManager;
import org.apache.kafka.coordinator.transaction.TransactionLog;
import org.apache.kafka.coordinator.transaction.TransactionMetadata;
import org.apache.kafka.coordinator.transaction.TransactionState;
import org.apache.kafka.coordinator.transaction.TxnTransitMetadata;
import org.apache.kafka.server.common.RequestLocal;
import org.apache.kafka.server.common.TransactionVersion;
import scala.Function1;
import scala.Option;
import scala.runtime.BoxedUnit;

/**
 * Kafka's own transaction coordinator without a cluster: its log takes every record at once, and markers are
 * written when a question says so. Questions are one line of JSON each, answered with one line of JSON: the
 * coordinator's answer, and the id afterwards as it is in memory and as a record.
 */
public class TransactionOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        System.setOut(System.err);  // where Kafka logs
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        Stage stage = null;
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            if (question.get("verb").asText().equals("coordinator")) stage = new Stage(question);
            out.println(stage.answer(question));
        }
        out.flush();
        System.exit(0);
    }

    /** Time by hand. */
    private static class HandTime implements Time {
        long nowMs;

        @Override public long milliseconds() { return nowMs; }
        @Override public long nanoseconds() { return nowMs * 1_000_000; }
        @Override public void sleep(long ms) { nowMs += ms; }
        @Override public void waitObject(Object object, java.util.function.Supplier<Boolean> done, long deadline) { }
        @Override public org.apache.kafka.common.utils.Timer timer(long timeoutMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** The state manager, with a log that takes everything at once. */
    private static class States extends TransactionStateManager {
        final TransactionVersion version;
        final Map<String, byte[]> records = new HashMap<>();

        States(TransactionConfig config, Time time, TransactionVersion version) {
            super(1, null, null, null, config, time, new Metrics());
            this.version = version;
        }

        @Override public TransactionVersion transactionVersionLevel() { return version; }

        @Override public void appendTransactionToLog(
                String id, int epoch, TxnTransitMetadata next, Function1<Errors, BoxedUnit> done,
                Function1<Errors, Object> retry, RequestLocal local) {
            records.put(id, TransactionLog.valueToBytes(next, version));
            metadata(id).completeTransitionTo(next);
            done.apply(Errors.NONE);
        }

        TransactionMetadata metadata(String id) {
            Option<CoordinatorEpochAndTxnMetadata> found = getTransactionState(id).toOption().get();
            return found.isEmpty() ? null : found.get().transactionMetadata();
        }
    }

    /** The sender of markers: they are written when a question says so. */
    private static class Markers extends TransactionMarkerChannelManager {
        final Map<String, TxnTransitMetadata> pending = new HashMap<>();
        final States states;

        Markers(KafkaConfig config, States states, Time time) {
            super(config, null, null, states, time);
            this.states = states;
        }

        @Override public void addTxnMarkersToSend(
                int epoch, TransactionResult result, TransactionMetadata metadata, TxnTransitMetadata next) {
            pending.put(metadata.transactionalId(), next);
            if (metadata.topicPartitions().isEmpty()) written(metadata.transactionalId());
        }

        void written(String id) {
            TxnTransitMetadata next = pending.remove(id);
            if (next != null)
                states.appendTransactionToLog(id, 1, next, error -> BoxedUnit.UNIT, null, null);
        }
    }

    private static class Stage {
        final HandTime time = new HandTime();
        final States states;
        final Markers markers;
        final TransactionCoordinator coordinator;
        long nextProducerId = 1000;

        Stage(JsonNode question) {
            TransactionConfig config = new TransactionConfig(
                604_800_000, 900_000, 1, (short) 1, 104_857_600, 5_242_880, 1, 10_000, 3_600_000, false, 30_000);
            states = new States(
                config, time, TransactionVersion.fromFeatureLevel((short) question.get("version").asInt()));
            states.startup(() -> 1, false);
            states.addLoadedTransactionsToCache(0, 1, new ConcurrentHashMap<>());
            Properties properties = new Properties();
            properties.put("process.roles", "broker,controller");
            properties.put("node.id", "1");
            properties.put("controller.quorum.voters", "1@localhost:9093");
            properties.put("listeners", "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093");
            properties.put("controller.listener.names", "CONTROLLER");
            markers = new Markers(new KafkaConfig(properties), states, time);
            ProducerIdManager ids = () -> nextProducerId++;
            coordinator = new TransactionCoordinator(
                config, new org.apache.kafka.server.util.KafkaScheduler(1), () -> ids, states, markers, time,
                new LogContext());
        }

        String answer(JsonNode question) throws Exception {
            ObjectNode answer = JSON.createObjectNode();
            String id = question.path("id").asText();
            long producerId = question.path("producer_id").asLong(-1);
            short epoch = (short) question.path("epoch").asInt(-1);
            TransactionVersion version = TransactionVersion.fromFeatureLevel((short) question.path("client").asInt());
            switch (question.get("verb").asText()) {
                case "init" -> coordinator.handleInitProducerId(
                    id, question.get("timeout").asInt(), question.path("2pc").asBoolean(),
                    question.path("keep").asBoolean(),
                    producerId < 0 ? Option.empty() : Option.apply(new ProducerIdAndEpoch(producerId, epoch)),
                    result -> {
                        put(answer, result.error(), result.producerId(), result.producerEpoch());
                        return BoxedUnit.UNIT;
                    }, RequestLocal.noCaching());
                case "add" -> coordinator.handleAddPartitionsToTransaction(
                    id, producerId, epoch, partitions(question), error -> {
                        answer.put("error", error.name());
                        return BoxedUnit.UNIT;
                    }, version, RequestLocal.noCaching());
                case "verify" -> coordinator.handleVerifyPartitionsInTransaction(
                    id, producerId, epoch, partitions(question), result -> {
                        answer.set("partitions", verified(result));
                        return BoxedUnit.UNIT;
                    });
                case "end" -> coordinator.handleEndTransaction(
                    id, producerId, epoch,
                    question.get("commit").asBoolean() ? TransactionResult.COMMIT : TransactionResult.ABORT,
                    version, (error, newId, newEpoch) -> {
                        put(answer, error, (long) newId, ((Short) newEpoch).shortValue());
                        return BoxedUnit.UNIT;
                    }, RequestLocal.noCaching());
                case "markers" -> markers.written(id);
                case "wait" -> {
                    time.nowMs += question.get("ms").asLong();
                    coordinator.abortTimedOutTransactions(
                        who -> (error, newId, newEpoch) -> BoxedUnit.UNIT);
                }
                case "load" -> load(id, question.get("value").asText());
                case "coordinator" -> { }
                default -> throw new IllegalArgumentException(question.toString());
            }
            TransactionMetadata now = id.isEmpty() ? null : states.metadata(id);
            if (now != null && now.producerEpoch() >= 0) {
                TxnTransitMetadata fields = now.prepareNoTransit();
                answer.put("last_epoch", fields.lastProducerEpoch());
                answer.put("previous_id", fields.prevProducerId());
                answer.put("value", HexFormat.of().formatHex(TransactionLog.valueToBytes(fields, states.version)));
                byte[] recorded = states.records.get(id);
                if (recorded != null) answer.put("record", HexFormat.of().formatHex(recorded));
            }
            return JSON.writeValueAsString(answer);
        }

        void load(String id, String value) {
            byte[] key = TransactionLog.keyToBytes(id);
            TransactionLog.TxnRecord read = (TransactionLog.TxnRecord) TransactionLog.read(
                ByteBuffer.wrap(key), ByteBuffer.wrap(HexFormat.of().parseHex(value)));
            ConcurrentHashMap<String, TransactionMetadata> loaded = new ConcurrentHashMap<>();
            loaded.put(id, read.metadata());
            states.addLoadedTransactionsToCache(0, 1, loaded);
            if (read.metadata().state() == TransactionState.PREPARE_COMMIT
                    || read.metadata().state() == TransactionState.PREPARE_ABORT)
                markers.pending.put(id, read.metadata().prepareComplete(time.milliseconds()));  // as Kafka's loading does
        }

        static void put(ObjectNode answer, Errors error, long producerId, short epoch) {
            answer.put("error", error.name());
            answer.put("producer_id", producerId);
            answer.put("epoch", epoch);
        }

        static ObjectNode verified(AddPartitionsToTxnResult result) {
            ObjectNode errors = JSON.createObjectNode();
            result.topicResults().forEach(topic -> topic.resultsByPartition().forEach(partition ->
                errors.put(topic.name() + "-" + partition.partitionIndex(),
                    Errors.forCode(partition.partitionErrorCode()).name())));
            return errors;
        }

        static Set<TopicPartition> partitions(JsonNode question) {
            Set<TopicPartition> partitions = new HashSet<>();
            question.get("partitions").forEach(each -> {
                String text = each.asText();
                int dash = text.lastIndexOf('-');
                partitions.add(
                    new TopicPartition(text.substring(0, dash), Integer.parseInt(text.substring(dash + 1))));
            });
            return partitions;
        }
    }
}
