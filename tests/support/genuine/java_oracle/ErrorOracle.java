import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.errors.InvalidMetadataException;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.protocol.Errors;

/** Prints code, name, retriable, refreshes metadata and message of every error code, separated by tabs. */
public class ErrorOracle {
    public static void main(String[] arguments) {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        for (Errors error : Errors.values()) {
            Exception thrown = error.exception();
            out.println(String.join("\t",
                String.valueOf(error.code()),
                error.name(),
                String.valueOf(thrown instanceof RetriableException),
                String.valueOf(thrown instanceof InvalidMetadataException),
                error.message()));
        }
        out.flush();
    }
}
