import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HexFormat;
import java.util.List;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.CompressionType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.SimpleRecord;

/**
 * Record batches as Apache Kafka's own classes build and read them.
 *
 *   generate   prints one JSON object for each batch of the corpus
 *   read       reads batches as lines of hex, prints what Kafka finds in each
 */
public class RecordsOracle {
    static final long T = 1_700_000_000_000L;

    public static void main(String[] arguments) throws Exception {
        if (arguments[0].equals("generate")) {
            generate();
        } else {
            BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
            for (String line = lines.readLine(); line != null; line = lines.readLine()) {
                try {
                    print("", MemoryRecords.readableRecords(ByteBuffer.wrap(HexFormat.of().parseHex(line.trim()))));
                } catch (Exception error) {
                    System.out.println("{\"error\": " + quoted(error.toString()) + "}");
                }
            }
        }
    }

    static SimpleRecord[] mixed() {
        Header[] headers = {
            new RecordHeader("trace", "a1".getBytes(StandardCharsets.UTF_8)),
            new RecordHeader("trace", null),
            new RecordHeader("größe", new byte[0])};
        return new SimpleRecord[] {
            new SimpleRecord(T, bytes("k0"), bytes("v0")),
            new SimpleRecord(T + 5, null, bytes("no key")),
            new SimpleRecord(T + 3, bytes("tombstone"), null),
            new SimpleRecord(T - 70_000, (byte[]) null, (byte[]) null),
            new SimpleRecord(T + 200_000, new byte[0], new byte[0], headers),
            new SimpleRecord(T, bytes("a key of more than sixty-three bytes, so that its length takes two of them"),
                bytes("value ".repeat(20)))};
    }

    static SimpleRecord[] many() {
        SimpleRecord[] records = new SimpleRecord[300];
        for (int i = 0; i < records.length; i++) {
            records[i] = new SimpleRecord(T + i / 10, bytes("key-" + i % 7), bytes(("line " + i % 13 + " ").repeat(40)));
        }
        return records;
    }

    static void generate() throws Exception {
        for (CompressionType type : CompressionType.values()) {
            Compression compression = Compression.of(type).build();
            print("mixed records, " + type.name, MemoryRecords.withRecords(compression, mixed()));
            print("one record, " + type.name, MemoryRecords.withRecords(compression, new SimpleRecord(T, null, bytes("x"))));
            if (type != CompressionType.NONE) {
                print("ninety kilobytes, " + type.name, MemoryRecords.withRecords(compression, many()));
            }
        }
        Compression none = Compression.NONE;
        print("large value", MemoryRecords.withRecords(none, new SimpleRecord(T, bytes("k"), bytes("0123456789".repeat(900)))));
        print("idempotent", MemoryRecords.withIdempotentRecords(none, 4711L, (short) 3, 2147483646, mixed()));
        print("transactional", MemoryRecords.withTransactionalRecords(1_000_000L, none, 4711L, (short) 3, 17, 9, mixed()));
        print("no timestamp", MemoryRecords.withRecords(none, new SimpleRecord(-1, bytes("k"), bytes("v"))));

        MemoryRecordsBuilder stamped = MemoryRecords.builder(
            ByteBuffer.allocate(512), (byte) 2, none, TimestampType.LOG_APPEND_TIME, 42L, T + 9);
        for (SimpleRecord record : mixed()) {
            stamped.append(record);
        }
        print("append time", stamped.build());

        MemoryRecordsBuilder gaps = MemoryRecords.builder(ByteBuffer.allocate(512), none, TimestampType.CREATE_TIME, 100L);
        gaps.appendWithOffset(100, T, bytes("a"), bytes("1"));
        gaps.appendWithOffset(103, T + 1, bytes("b"), bytes("2"));
        gaps.appendWithOffset(9000, T + 2, bytes("c"), bytes("3"));
        print("offsets with gaps", gaps.build());

        ByteBuffer empty = ByteBuffer.allocate(61);
        DefaultRecordBatch.writeEmptyHeader(empty, (byte) 2, 77L, (short) 2, 5, 500L, 509L, 4, TimestampType.CREATE_TIME, T, true, false);
        empty.flip();
        print("empty batch", MemoryRecords.readableRecords(empty));
        control();
    }

    static void control() {
        for (ControlRecordType type : new ControlRecordType[] {ControlRecordType.COMMIT, ControlRecordType.ABORT}) {
            print("marker " + type, MemoryRecords.withEndTransactionMarker(
                33L, T, 6, 4711L, (short) 3, new EndTransactionMarker(type, 12)));
        }
        ByteBuffer buffer = ByteBuffer.allocate(512);
        LeaderChangeMessage change = new LeaderChangeMessage().setVersion((short) 0).setLeaderId(1)
            .setVoters(List.of(new LeaderChangeMessage.Voter().setVoterId(1)))
            .setGrantingVoters(List.of());
        print("leader change", MemoryRecords.withLeaderChangeMessage(5L, T, 2, buffer, change));
        print("snapshot header", MemoryRecords.withSnapshotHeaderRecord(
            0L, T, 2, ByteBuffer.allocate(512), new SnapshotHeaderRecord().setVersion((short) 0).setLastContainedLogTimestamp(T)));
        print("snapshot footer", MemoryRecords.withSnapshotFooterRecord(
            9L, T, 2, ByteBuffer.allocate(512), new SnapshotFooterRecord().setVersion((short) 0)));
        print("kraft version", MemoryRecords.withKRaftVersionRecord(
            1L, T, 2, ByteBuffer.allocate(512), new KRaftVersionRecord().setVersion((short) 0).setKRaftVersion((short) 1)));
        print("voters", MemoryRecords.withVotersRecord(
            2L, T, 2, ByteBuffer.allocate(512), new VotersRecord().setVersion((short) 0).setVoters(List.of(
                new VotersRecord.Voter().setVoterId(1).setVoterDirectoryId(new Uuid(7, 8))))));
    }

    static void print(String name, MemoryRecords records) {
        ByteBuffer bytes = records.buffer().duplicate();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        StringBuilder out = new StringBuilder("{\"name\": " + quoted(name) + ", \"hex\": \"" + HexFormat.of().formatHex(copy) + "\"");
        MutableRecordBatch batch = records.batches().iterator().next();
        out.append(", \"valid\": ").append(batch.isValid());
        out.append(", \"header\": {\"base_offset\": ").append(batch.baseOffset())
            .append(", \"last_offset\": ").append(batch.lastOffset())
            .append(", \"size_bytes\": ").append(batch.sizeInBytes())
            .append(", \"partition_leader_epoch\": ").append(batch.partitionLeaderEpoch())
            .append(", \"crc\": ").append(batch.checksum())
            .append(", \"codec\": ").append(batch.compressionType().id)
            .append(", \"timestamp_type\": ").append(batch.timestampType().id)
            .append(", \"is_transactional\": ").append(batch.isTransactional())
            .append(", \"is_control\": ").append(batch.isControlBatch())
            .append(", \"max_timestamp\": ").append(batch.maxTimestamp())
            .append(", \"producer_id\": ").append(batch.producerId())
            .append(", \"producer_epoch\": ").append(batch.producerEpoch())
            .append(", \"base_sequence\": ").append(batch.baseSequence())
            .append(", \"last_sequence\": ").append(batch.lastSequence())
            .append(", \"record_count\": ").append(batch.countOrNull()).append("}");
        if (name.startsWith("ninety kilobytes")) {
            System.out.println(out + "}");  // the reader of the corpus knows how these were made
            return;
        }
        List<String> found = new ArrayList<>();
        for (Record record : batch) {
            List<String> headers = new ArrayList<>();
            for (Header header : record.headers()) {
                headers.add("[" + quoted(header.key()) + ", " + hex(header.value() == null ? null : ByteBuffer.wrap(header.value())) + "]");
            }
            found.add("[" + record.offset() + ", " + record.timestamp() + ", " + hex(record.key()) + ", " + hex(record.value())
                + ", [" + String.join(", ", headers) + "]]");
        }
        System.out.println(out + ", \"records\": [" + String.join(", ", found) + "]}");
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static String hex(ByteBuffer data) {
        if (data == null) {
            return "null";
        }
        byte[] copy = new byte[data.remaining()];
        data.duplicate().get(copy);
        return "\"" + HexFormat.of().formatHex(copy) + "\"";
    }

    static String quoted(String text) {
        StringBuilder out = new StringBuilder("\"");
        for (char c : text.toCharArray()) {
            out.append(c == '"' || c == '\\' || c < 32 || c > 126 ? String.format("\\u%04x", (int) c) : String.valueOf(c));
        }
        return out.append("\"").toString();
    }
}
