import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Producers or consumers of the Java client, each with a thread of its own, as fast as they can.
 *
 * The one argument is the broker's address; jobs come on standard input, see
 * tests/performance/genuine_programs.py. All settings are the client's own.
 */
public final class LoadClients {
    private static final Duration POLL = Duration.ofMillis(100);

    /** What is ready to begin: `work` returns when it is done, `close` gives back what it holds. */
    private interface Load extends AutoCloseable {
        void work(AtomicBoolean over);
    }

    private static final BufferedReader INPUT = new BufferedReader(new InputStreamReader(System.in));

    public static void main(String[] arguments) throws Exception {
        for (String line; (line = INPUT.readLine()) != null; ) {
            var words = line.split(" ");
            int clients = Integer.parseInt(words[2]), number = Integer.parseInt(words[3]);
            var done = new AtomicLong();
            List<Load> loads = new ArrayList<>();
            if (words[0].equals("produce")) {
                for (int index = 0; index < clients; index++) {
                    loads.add(new Producer(arguments[0], words[1], number, done));
                }
                produce(loads, Double.parseDouble(words[4]), Double.parseDouble(words[5]), done);
            } else {
                long records = Long.parseLong(words[4]);
                for (int index = 0; index < clients; index++) {
                    loads.add(new Consumer(arguments[0], words[1], index, clients, number, records, done));
                }
                long began = awaitGo();
                for (Thread thread : started(loads, null)) thread.join();
                tell(done.get(), began);
            }
            for (Load load : loads) load.close();
            System.out.println("done");
        }
    }

    private static void produce(List<Load> loads, double warm, double seconds, AtomicLong done) throws Exception {
        var over = new AtomicBoolean();
        var threads = started(loads, over);
        Thread.sleep((long) (warm * 1000));
        long began = awaitGo(), before = done.get();
        Thread.sleep((long) (seconds * 1000));
        tell(done.get() - before, began);
        over.set(true);
        for (Thread thread : threads) thread.join();
    }

    private static List<Thread> started(List<Load> loads, AtomicBoolean over) {
        List<Thread> threads = new ArrayList<>();
        for (Load load : loads) {
            var thread = new Thread(() -> {
                try {
                    load.work(over);
                } catch (Throwable failure) {
                    fail(failure);
                }
            });
            thread.start();
            threads.add(thread);
        }
        return threads;
    }

    /** Returns when the job may begin: its clock starts. */
    private static long awaitGo() throws Exception {
        System.out.println("ready");
        if (INPUT.readLine() == null) Runtime.getRuntime().halt(0);
        return System.nanoTime();
    }

    private static void tell(long records, long began) {
        System.out.printf("{\"records\": %d, \"seconds\": %.6f}%n", records, (System.nanoTime() - began) / 1e9);
    }

    private static void fail(Throwable failure) {
        failure.printStackTrace();
        Runtime.getRuntime().halt(1);
    }

    private static final class Producer implements Load {
        private final KafkaProducer<byte[], byte[]> producer;
        private final String topic;
        private final byte[] value;
        private final AtomicLong done;

        Producer(String address, String topic, int recordBytes, AtomicLong done) throws Exception {
            this.topic = topic;
            this.done = done;
            value = new byte[recordBytes];
            var serializer = new ByteArraySerializer();
            producer = new KafkaProducer<>(Map.of("bootstrap.servers", address), serializer, serializer);
            producer.send(new ProducerRecord<>(topic, value)).get();
        }

        @Override
        public void work(AtomicBoolean over) {
            while (!over.get()) {
                producer.send(new ProducerRecord<>(topic, value), (metadata, failure) -> {
                    if (failure != null) fail(failure);
                    done.incrementAndGet();
                });
            }
            producer.flush();
        }

        @Override
        public void close() {
            producer.close();
        }
    }

    /** Reads every so manieth partition, until all consumers together have read so many records. */
    private static final class Consumer implements Load {
        private final KafkaConsumer<byte[], byte[]> consumer;
        private final List<TopicPartition> partitions = new ArrayList<>();
        private final long records;
        private final AtomicLong done;

        Consumer(String address, String topic, int index, int consumers, int count, long records, AtomicLong done) {
            this.records = records;
            this.done = done;
            for (int each = index; each < count; each += consumers) partitions.add(new TopicPartition(topic, each));
            var deserializer = new ByteArrayDeserializer();
            consumer = new KafkaConsumer<>(Map.of("bootstrap.servers", address), deserializer, deserializer);
            consumer.assign(partitions);
        }

        @Override
        public void work(AtomicBoolean over) {
            consumer.seekToBeginning(partitions);
            while (done.get() < records) done.addAndGet(consumer.poll(POLL).count());
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
