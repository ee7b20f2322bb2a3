import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.StreamJoined;

/**
 * An exactly-once application of Streams that may be killed at any moment: words are counted, and orders are
 * joined with payments within a window. Both go by way of a repartition topic and of state in RocksDB with
 * changelogs. Arguments: address, application id, prefix of the inputs, prefix of the outputs, folder, width of
 * the window in milliseconds.
 *
 * Records leave long before their transaction ends, so that a kill finds some in an open one.
 *
 * It prints RUNNING when all its tasks run, leaves when standard input ends, and then prints CLOSED. An error
 * that ends one of its threads ends the program.
 */
public final class StreamsJob {
    private static final int THREADS = 2;
    private static final Duration NOTHING_IS_LATE = Duration.ofHours(1);

    private StreamsJob() {
    }

    public static void main(String[] arguments) throws Exception {
        KafkaStreams streams = new KafkaStreams(topology(arguments), settings(arguments));
        CountDownLatch running = new CountDownLatch(1);
        streams.setStateListener((now, before) -> {
            if (now == KafkaStreams.State.RUNNING) {
                running.countDown();
            }
            if (now == KafkaStreams.State.ERROR) {
                Runtime.getRuntime().halt(3);
            }
        });
        streams.start();
        running.await();
        System.out.println("RUNNING");
        while (System.in.read() >= 0) {
            continue;
        }
        boolean closed = streams.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Duration.ofSeconds(60)));
        System.out.println(closed ? "CLOSED" : "NOT CLOSED");
    }

    private static Topology topology(String[] arguments) {
        String inputs = arguments[2];
        String outputs = arguments[3];
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(inputs + "-lines")
            .flatMapValues(line -> List.of(line.split(" ")))
            .selectKey((key, word) -> word)
            .groupByKey(Grouped.as("words"))
            .count(Materialized.as("counts"))
            .toStream()
            .mapValues(String::valueOf)
            .to(outputs + "-counts");
        KStream<String, String> orders = builder.<String, String>stream(inputs + "-orders")
            .selectKey((number, order) -> order.substring(0, order.indexOf(':')));
        KStream<String, String> payments = builder.stream(inputs + "-payments");
        Duration width = Duration.ofMillis(Long.parseLong(arguments[5]));
        orders.join(
                payments,
                (order, payment) -> order + " " + payment,
                JoinWindows.ofTimeDifferenceAndGrace(width, NOTHING_IS_LATE),
                StreamJoined.<String, String, String>as("paid").withName("paid"))
            .to(outputs + "-paid");
        return builder.build();
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4]);
        settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, StreamsConfig.EXACTLY_ONCE_V2);
        settings.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, THREADS);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.producerPrefix("linger.ms"), 5);
        settings.put(StreamsConfig.consumerPrefix("session.timeout.ms"), 6_000);
        settings.put(StreamsConfig.consumerPrefix("heartbeat.interval.ms"), 1_000);
        settings.put(StreamsConfig.consumerPrefix("auto.offset.reset"), "earliest");
        return settings;
    }
}
