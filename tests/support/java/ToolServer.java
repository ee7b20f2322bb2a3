import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileDescriptor;
import java.io.FileInputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import org.apache.kafka.common.utils.Exit;

/**
 * Runs the main methods of command line tools, one after the other, in one JVM.
 *
 * A call on standard input: the count of words, each word (the class first), then what the tool reads; each
 * with its length before it. The answer on standard output: exit code, output, error output.
 * The tools' own classes are loaded anew for each call, for some keep what they counted in static fields.
 */
public final class ToolServer {
    private static final class Exited extends Error {
        Exited() {
            super(null, null, false, false);
        }
    }

    private static final class FreshTools extends URLClassLoader {
        FreshTools(URL[] jars) {
            super(jars, ToolServer.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            synchronized (getClassLoadingLock(name)) {
                Class<?> found = findLoadedClass(name);
                if (found == null && (name.startsWith("org.apache.kafka.") || name.startsWith("kafka."))) {
                    try {
                        found = findClass(name);
                    } catch (ClassNotFoundException elsewhere) {
                        // one of the shared classes
                    }
                }
                return found == null ? super.loadClass(name, resolve) : found;
            }
        }
    }

    public static void main(String[] jars) throws Exception {
        var input = new DataInputStream(new FileInputStream(FileDescriptor.in));
        var output = new DataOutputStream(new FileOutputStream(FileDescriptor.out));
        var urls = new URL[jars.length];
        for (int i = 0; i < jars.length; i++) urls[i] = Path.of(jars[i]).toUri().toURL();
        while (true) {
            int count;
            try {
                count = input.readInt();
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            var words = new String[count];
            for (int i = 0; i < count; i++) words[i] = new String(block(input), StandardCharsets.UTF_8);
            var call = new Call();
            call.run(urls, words, block(input));
            call.answer(output);
        }
    }

    private static byte[] block(DataInputStream input) throws IOException {
        return input.readNBytes(input.readInt());
    }

    /** One call: what the tool had printed when it ended, at the latest when it first asked for an exit. */
    private static final class Call {
        private final ByteArrayOutputStream out = new ByteArrayOutputStream();
        private final ByteArrayOutputStream err = new ByteArrayOutputStream();
        private final Queue<Runnable> hooks = new ConcurrentLinkedQueue<>();
        private byte[] printed;
        private byte[] complained;
        private int code;

        synchronized void ended(int code) {
            if (printed != null) return;
            System.out.flush();
            System.err.flush();
            this.code = code;
            printed = out.toByteArray();
            complained = err.toByteArray();
        }

        void run(URL[] urls, String[] words, byte[] stdin) {
            System.setIn(new ByteArrayInputStream(stdin));
            System.setOut(new PrintStream(out, true, StandardCharsets.UTF_8));
            System.setErr(new PrintStream(err, true, StandardCharsets.UTF_8));
            Exit.setExitProcedure((code, message) -> exit(code));
            Exit.setHaltProcedure((code, message) -> exit(code));
            Exit.setShutdownHookAdder((name, hook) -> hooks.add(hook));
            try {
                Method main = new FreshTools(urls).loadClass(words[0]).getMethod("main", String[].class);
                main.invoke(null, (Object) Arrays.copyOfRange(words, 1, words.length));
            } catch (InvocationTargetException failure) {
                failure.getCause().printStackTrace();
                ended(1);
            } catch (ReflectiveOperationException failure) {
                failure.printStackTrace();
                ended(127);
            }
            runHooks();
            ended(0);
        }

        /** As at the end of a JVM: what was to be closed is closed, but nobody waits for ever. */
        private void runHooks() {
            for (Runnable hook = hooks.poll(); hook != null; hook = hooks.poll()) {
                var thread = new Thread(hook);
                thread.setDaemon(true);
                thread.start();
                try {
                    thread.join(10_000);
                } catch (InterruptedException interrupted) {
                    Thread.currentThread().interrupt();
                }
            }
        }

        /** A tool may catch what ends it here, and then asks for an exit again: the first time counts. */
        private void exit(int code) {
            runHooks();
            ended(code);
            throw new Exited();
        }

        void answer(DataOutputStream output) throws IOException {
            output.writeInt(code);
            for (var text : new byte[][] {printed, complained}) {
                output.writeInt(text.length);
                output.write(text);
            }
            output.flush();
        }
    }
}
