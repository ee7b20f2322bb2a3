import java.time.Duration;
import java.util.Locale;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.state.Stores;

/**
 * A Streams application of two instances over the classic protocol: words are counted by way of a repartition
 * topic and a changelog. Arguments: address, application id, input, output, folder. It runs until standard input
 * ends, and prints RUNNING when both instances have their tasks.
 */
public final class StreamsTour {
    private StreamsTour() {
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch running = new CountDownLatch(2);
        KafkaStreams[] instances = new KafkaStreams[2];
        for (int number = 0; number < 2; number++) {
            instances[number] = new KafkaStreams(topology(arguments[2], arguments[3]), settings(arguments, number));
            boolean[] told = {false};
            instances[number].setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING && !told[0]) {
                    told[0] = true;
                    running.countDown();
                }
            });
            instances[number].start();
        }
        if (!running.await(90, TimeUnit.SECONDS)) {
            throw new IllegalStateException("not running after 90 s");
        }
        System.out.println("RUNNING");
        while (System.in.read() >= 0) {
            continue;
        }
        for (KafkaStreams instance : instances) {
            instance.close(new KafkaStreams.CloseOptions().leaveGroup(true).timeout(Duration.ofSeconds(30)));
        }
        System.out.println("CLOSED");
    }

    private static org.apache.kafka.streams.Topology topology(String input, String output) {
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream(input)
            .selectKey((key, word) -> word.toLowerCase(Locale.ROOT))
            .groupByKey(Grouped.as("words"))
            .count(Materialized.as(Stores.inMemoryKeyValueStore("counts")))
            .toStream()
            .mapValues(String::valueOf)
            .to(output);
        return builder.build();
    }

    private static Properties settings(String[] arguments, int number) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.CLIENT_ID_CONFIG, "streams-" + number);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[4] + "/" + number);
        settings.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, Serdes.StringSerde.class);
        settings.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, 200);
        settings.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, 0);
        settings.put("group.instance.id", "instance-" + number);
        return settings;
    }
}
