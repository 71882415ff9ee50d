// Runs Kafka's command line tools one after the other in one JVM: most of a tool's second of CPU time goes into a JVM's start.
//
//     java ToolServer
//
// A request on the standard input, in big-endian integers and UTF-8 with lengths: the class, the number of arguments, the
// arguments, the standard input of the tool, the patience in seconds. The answer: the exit code, or -1 for a tool that did
// not end, its output, its errors.

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.PrintStream;
import java.lang.reflect.InvocationTargetException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import org.apache.kafka.common.utils.Exit;
import org.slf4j.LoggerFactory;

public class ToolServer {
    // what a tool's call of exit throws, to leave the tool
    static class Ended extends Error {
        Ended() {
            super("ended", null, false, false);
        }
    }

    // loads the tools' own classes anew for each run, since some keep counts in static fields; all others once
    static class Tools extends URLClassLoader {
        Tools(URL[] jars) {
            super(jars, ToolServer.class.getClassLoader());
        }

        @Override
        protected Class<?> loadClass(String name, boolean resolve) throws ClassNotFoundException {
            boolean own = name.startsWith("org.apache.kafka.tools.") || name.startsWith("kafka.");
            synchronized (getClassLoadingLock(name)) {
                if (!own)
                    return super.loadClass(name, resolve);
                Class<?> found = findLoadedClass(name);
                return found != null ? found : findClass(name);
            }
        }
    }

    record Outcome(int code, byte[] out, byte[] err) {}

    static final long LEAVES_WITHIN_MS = 10_000;
    static final List<Runnable> hooks = new ArrayList<>();
    static URL[] jars;

    public static void main(String[] words) throws Exception {
        jars = Arrays.stream(System.getProperty("java.class.path").split(System.getProperty("path.separator")))
            .map(ToolServer::url).toArray(URL[]::new);
        LoggerFactory.getLogger(ToolServer.class).debug("the log's appender takes the present System.err");
        DataInputStream requests = new DataInputStream(System.in);
        DataOutputStream answers = new DataOutputStream(System.out);
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            if (!(failure instanceof Ended))
                failure.printStackTrace();
        });
        while (true) {
            String name;
            try {
                name = text(requests);
            } catch (EOFException end) {
                Runtime.getRuntime().halt(0);
                return;
            }
            String[] arguments = new String[requests.readInt()];
            for (int i = 0; i < arguments.length; i++)
                arguments[i] = text(requests);
            Outcome outcome = run(name, arguments, bytes(requests), requests.readInt());
            answers.writeInt(outcome.code);
            for (byte[] part : List.of(outcome.out, outcome.err)) {
                answers.writeInt(part.length);
                answers.write(part);
            }
            answers.flush();
        }
    }

    static URL url(String path) {
        try {
            return Path.of(path).toUri().toURL();
        } catch (MalformedURLException wrong) {
            throw new IllegalArgumentException(wrong);
        }
    }

    static byte[] bytes(DataInputStream from) throws IOException {
        return from.readNBytes(from.readInt());
    }

    static String text(DataInputStream from) throws IOException {
        return new String(bytes(from), StandardCharsets.UTF_8);
    }

    static Outcome run(String name, String[] arguments, byte[] input, int patienceS) throws Exception {
        InputStream usualIn = System.in;
        PrintStream usualOut = System.out, usualErr = System.err;
        ByteArrayOutputStream out = new ByteArrayOutputStream(), err = new ByteArrayOutputStream();
        CompletableFuture<Outcome> ended = new CompletableFuture<>();
        Exit.Procedure exit = (code, message) -> {
            finish(ended, code, out, err);
            throw new Ended();
        };
        Exit.setExitProcedure(exit);
        Exit.setHaltProcedure(exit);
        Exit.setShutdownHookAdder((title, hook) -> hooks.add(hook));
        System.setIn(new ByteArrayInputStream(input));
        System.setOut(new PrintStream(out, true));
        System.setErr(new PrintStream(err, true));
        Thread main = new Thread(() -> finish(ended, call(name, arguments), out, err), "main");
        main.start();
        try {
            return ended.get(patienceS, TimeUnit.SECONDS);
        } catch (TimeoutException late) {
            main.interrupt();
            return new Outcome(-1, out.toByteArray(), err.toByteArray());
        } finally {
            main.join(LEAVES_WITHIN_MS);
            hooks.clear();
            System.setIn(usualIn);
            System.setOut(usualOut);
            System.setErr(usualErr);
        }
    }

    // The exit code. A failure is printed as the JVM prints it.
    static int call(String name, String[] arguments) {
        try (Tools tools = new Tools(jars)) {
            Thread.currentThread().setContextClassLoader(tools);
            tools.loadClass(name).getMethod("main", String[].class).invoke(null, (Object) arguments);
            return 0;
        } catch (InvocationTargetException thrown) {
            if (thrown.getCause() instanceof Ended)
                return 0;
            System.err.print("Exception in thread \"main\" ");
            thrown.getCause().printStackTrace();
            return 1;
        } catch (ReflectiveOperationException | IOException broken) {
            throw new IllegalStateException(broken);
        }
    }

    // The first call counts: it runs the shutdown hooks, and what is printed afterwards is dropped.
    static synchronized void finish(
        CompletableFuture<Outcome> ended, int code, ByteArrayOutputStream out, ByteArrayOutputStream err) {
        if (ended.isDone())
            return;
        List<Runnable> last = List.copyOf(hooks);
        hooks.clear();
        last.forEach(Runnable::run);
        System.setOut(new PrintStream(OutputStream.nullOutputStream()));
        System.setErr(new PrintStream(OutputStream.nullOutputStream()));
        ended.complete(new Outcome(code, out.toByteArray(), err.toByteArray()));
    }
}
