import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.SerializationException;
import org.apache.kafka.common.serialization.*;

/** What a commit says after a record of the transaction was refused; two lines for each case: the send, the commit. */
public class RefusedSends {
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        refused("too large", new ProducerRecord<>("t", new byte[2_000_000]), Map.of());
        refused("beyond the memory", new ProducerRecord<>("t", new byte[60_000]), Map.of("buffer.memory", 50_000));
        refused("invalid name", new ProducerRecord<>("a b", new byte[1]), Map.of());
        refused("no such topic", new ProducerRecord<>("u", new byte[1]), Map.of());
        refused("no such partition", new ProducerRecord<>("t", 7, null, new byte[1]), Map.of());
        refused("a serializer that raises", new ProducerRecord<>("t", new byte[1]),
                Map.of("value.serializer", Raises.class.getName()));
        refused("a partitioner that raises", new ProducerRecord<>("t", new byte[1]),
                Map.of("partitioner.class", NoPartition.class.getName()));
        refused("refused by the broker", new ProducerRecord<>("small", new byte[5_000]), Map.of());
    }

    static void refused(String name, ProducerRecord<byte[], byte[]> record, Map<String, Object> more) throws Exception {
        try (var producer = producer(more)) {
            producer.initTransactions();
            producer.beginTransaction();
            say(name + ", send", () -> producer.send(record).get());
            say(name + ", commit", () -> { producer.commitTransaction(); return null; });
        }
    }

    public static class Raises extends ByteArraySerializer {
        @Override
        public byte[] serialize(String topic, byte[] data) {
            throw new SerializationException("no");
        }
    }

    public static class NoPartition implements Partitioner {
        public int partition(String topic, Object key, byte[] keyBytes, Object value, byte[] bytes, Cluster cluster) {
            throw new UnsupportedOperationException("no");
        }

        public void close() {}

        public void configure(Map<String, ?> settings) {}
    }

    static void say(String name, Callable<Object> call) {
        String outcome = "nothing";
        try {
            call.call();
        } catch (ExecutionException error) {
            outcome = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            outcome = error.getClass().getSimpleName();
            for (Throwable cause = error.getCause(); cause != null; cause = cause.getCause()) {
                outcome += " of " + cause.getClass().getSimpleName();
            }
        }
        System.out.println(name + ": " + outcome);
    }

    static KafkaProducer<byte[], byte[]> producer(Map<String, Object> more) {
        var settings = new HashMap<String, Object>(Map.of("key.serializer", ByteArraySerializer.class.getName(),
                "value.serializer", ByteArraySerializer.class.getName(), "max.block.ms", 3000,
                "bootstrap.servers", bootstrap, "transactional.id", "x"));
        settings.putAll(more);
        return new KafkaProducer<>(settings);
    }
}
