import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.common.serialization.Serde;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;

/**
 * The book's Streams application: of all flights only the successful ones. Arguments: address, application id,
 * folder. It runs until standard input ends, and prints RUNNING when it has its tasks.
 */
public final class StreamsFilter {
    private StreamsFilter() {
    }

    public static void main(String[] arguments) throws Exception {
        CountDownLatch running = new CountDownLatch(1);
        try (KafkaStreams streams = new KafkaStreams(topology(), settings(arguments))) {
            streams.setStateListener((now, before) -> {
                if (now == KafkaStreams.State.RUNNING) {
                    running.countDown();
                }
            });
            streams.start();
            if (!running.await(90, TimeUnit.SECONDS)) {
                throw new IllegalStateException("not running after 90 s");
            }
            System.out.println("RUNNING");
            while (System.in.read() >= 0) {
                continue;
            }
        }
        System.out.println("CLOSED");
    }

    private static Topology topology() {
        final Serde<String> stringSerde = Serdes.String();
        final StreamsBuilder builder = new StreamsBuilder();
        builder.stream("flugdaten_mit_keys", Consumed.with(stringSerde, stringSerde))
            .filter((key, value) -> value.equals("Landung erfolgreich"))
            .to("erfolgreiche_fluege");
        return builder.build();
    }

    private static Properties settings(String[] arguments) {
        Properties settings = new Properties();
        settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, arguments[0]);
        settings.put(StreamsConfig.APPLICATION_ID_CONFIG, arguments[1]);
        settings.put(StreamsConfig.STATE_DIR_CONFIG, arguments[2]);
        return settings;
    }
}
