import com.fasterxml.jackson.databind.JsonNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Constructor;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.MessageUtil;
import org.apache.kafka.common.protocol.Readable;

/**
 * Reads "MessageName version hex" lines, answers each with one line:
 *
 *   ok TAB bytes left TAB the message encoded again, in hex TAB the same by way of JSON TAB the JSON
 *   error TAB what was thrown
 *
 * The JSON columns are empty for the few messages that have no converter.
 */
public class MessageOracle {
    private static final String[] PACKAGES = {
        "org.apache.kafka.common.message.",
        "org.apache.kafka.common.metadata.",
        "org.apache.kafka.coordinator.group.generated.",
        "org.apache.kafka.coordinator.transaction.generated.",
        "org.apache.kafka.coordinator.share.generated.",
        "org.apache.kafka.raft.generated.",
        "org.apache.kafka.server.log.remote.metadata.storage.generated.",
        "org.apache.kafka.streams.internals.generated.",
    };

    private static Class<?> find(String name) throws ClassNotFoundException {
        for (String prefix : PACKAGES) {
            for (String suffix : new String[] {"Data", ""}) {
                try {
                    return Class.forName(prefix + name + suffix);
                } catch (ClassNotFoundException absent) {
                    // It is in another package.
                }
            }
        }
        throw new ClassNotFoundException(name);
    }

    private static String encode(Message message, short version) {
        ByteBufferAccessor out = MessageUtil.toByteBufferAccessor(message, version);
        ByteBuffer bytes = out.buffer();
        byte[] copy = new byte[bytes.remaining()];
        bytes.get(copy);
        return HexFormat.of().formatHex(copy);
    }

    private static String answer(String line) throws Exception {
        String[] words = line.split(" ", -1);
        short version = Short.parseShort(words[1]);
        Class<?> type = find(words[0]);
        ByteBuffer bytes = ByteBuffer.wrap(HexFormat.of().parseHex(words[2]));
        Constructor<?> constructor = type.getConstructor(Readable.class, short.class);
        Message message = (Message) constructor.newInstance(new ByteBufferAccessor(bytes), version);
        String direct = encode(message, version);
        Class<?> converter;
        try {
            converter = Class.forName(type.getName() + "JsonConverter");
        } catch (ClassNotFoundException none) {
            return "ok\t" + bytes.remaining() + "\t" + direct + "\t\t";
        }
        Method write = converter.getMethod("write", type, short.class);
        Method read = converter.getMethod("read", JsonNode.class, short.class);
        JsonNode json = (JsonNode) write.invoke(null, message, version);
        Message again = (Message) read.invoke(null, json, version);
        return "ok\t" + bytes.remaining() + "\t" + direct + "\t" + encode(again, version) + "\t" + json;
    }

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            try {
                out.println(answer(line));
            } catch (Throwable thrown) {
                Throwable cause = thrown.getCause() == null ? thrown : thrown.getCause();
                out.println("error\t" + cause.toString().replaceAll("\\s+", " "));
            }
        }
        out.flush();
    }
}
