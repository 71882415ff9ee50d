// Kafka's own Java client, which does what its standard input says, line by line, and answers on its standard output.
//
//   java Agent PROPERTIES TRANSACTIONAL_ID GROUP TOPIC...     - for none; a consumer if there is a group, else a producer,
//                                                            both if there is a transactional id as well
//
// send NUMBER TOPIC PARTITION KEY VALUE     later: sent NUMBER OFFSET, or failed NUMBER ERROR; KEY in Base64, or - for none
// flush | begin | commit | abort            done, or error abort|fatal|retry ERROR
// poll                                      moved CAUSE TOPIC:PARTITION..., as often as that happens; then
//                                           records TOPIC:PARTITION:OFFSET:KEY:VALUE..., key and value in Base64, or error
// store TOPIC:PARTITION:OFFSET...           done or error: commits these offsets; in the transaction if there is a producer
//
// Offsets are committed with the leader epoch of the last record (KIP-320), as `ConsumerRecords.nextOffsets` has them: the
// next member does not ask a leader of an earlier epoch, which would find the offset out of range.

import java.io.BufferedReader;
import java.io.FileReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Base64;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;

public class Agent implements ConsumerRebalanceListener {
    static final String BYTES = "org.apache.kafka.common.serialization.ByteArray";
    KafkaProducer<byte[], byte[]> producer;
    KafkaConsumer<byte[], byte[]> consumer;
    final Map<TopicPartition, OffsetAndMetadata> next = new HashMap<>();

    public static void main(String[] words) throws Exception {
        Agent agent = new Agent();
        agent.start(words);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) agent.obey(line.split(" "));
        Runtime.getRuntime().halt(0);
    }

    void start(String[] words) throws Exception {
        Properties cluster = new Properties();
        try (FileReader file = new FileReader(words[0])) { cluster.load(file); }
        Map<String, Object> writes = new HashMap<>(Map.of(
            "request.timeout.ms", 3_000, "max.block.ms", 20_000, "linger.ms", 2,
            "delivery.timeout.ms", 300_000, "key.serializer", BYTES + "Serializer",
            "value.serializer", BYTES + "Serializer"));
        Map<String, Object> reads = new HashMap<>(Map.of(
            "group.id", words[2], "isolation.level", "read_committed",
            "enable.auto.commit", false, "auto.offset.reset", "earliest", "request.timeout.ms", 3_000,
            "default.api.timeout.ms", 10_000, "session.timeout.ms", 6_000,
            "key.deserializer", BYTES + "Deserializer", "value.deserializer", BYTES + "Deserializer"));
        for (String name : cluster.stringPropertyNames()) {
            writes.put(name, cluster.getProperty(name));
            reads.put(name, cluster.getProperty(name));
        }
        boolean transactional = !words[1].equals("-"), member = !words[2].equals("-");
        if (member) {
            consumer = new KafkaConsumer<>(reads);
            consumer.subscribe(List.of(words).subList(3, words.length), this);
        }
        if (transactional) {
            writes.put("transactional.id", words[1]);
            writes.put("transaction.timeout.ms", 10_000);
            writes.put("delivery.timeout.ms", 10_000);
        }
        if (transactional || !member) producer = new KafkaProducer<>(writes);
        if (transactional) attempt(producer::initTransactions);
    }

    void obey(String[] words) {
        switch (words[0]) {
            case "send" -> send(words);
            case "flush" -> attempt(producer::flush);
            case "begin" -> attempt(producer::beginTransaction);
            case "commit" -> attempt(producer::commitTransaction);
            case "abort" -> attempt(producer::abortTransaction);
            case "poll" -> poll();
            case "store" -> attempt(() -> store(words));
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    void send(String[] words) {
        byte[] key = words[4].equals("-") ? null : Base64.getDecoder().decode(words[4]);
        try {
            producer.send(new ProducerRecord<>(words[2], Integer.valueOf(words[3]), key, words[5].getBytes()),
                (metadata, error) -> say(error == null ? "sent " + words[1] + " " + metadata.offset()
                                                       : "failed " + words[1] + " " + error));
        } catch (KafkaException | IllegalStateException error) {
            say("failed " + words[1] + " " + error);
        }
    }

    void poll() {
        try {
            StringBuilder found = new StringBuilder("records");
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(300));
            next.putAll(records.nextOffsets());
            for (ConsumerRecord<byte[], byte[]> record : records)
                found.append(' ').append(record.topic()).append(':').append(record.partition()).append(':')
                    .append(record.offset()).append(':').append(text(record.key())).append(':').append(text(record.value()));
            say(found.toString());
        } catch (KafkaException error) {
            fail(error);
        }
    }

    static String text(byte[] bytes) {
        return bytes == null ? "-" : Base64.getEncoder().encodeToString(bytes);
    }

    void store(String[] words) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String word : List.of(words).subList(1, words.length)) {
            String[] parts = word.split(":");
            TopicPartition partition = new TopicPartition(parts[0], Integer.parseInt(parts[1]));
            OffsetAndMetadata read = next.get(partition);
            if (read == null) throw new IllegalArgumentException(word);
            offsets.put(partition, new OffsetAndMetadata(Long.parseLong(parts[2]), read.leaderEpoch(), ""));
        }
        if (producer == null) consumer.commitSync(offsets);
        else producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
    }

    void attempt(Runnable action) {
        try {
            action.run();
            say("done");
        } catch (KafkaException | IllegalStateException error) {
            fail(error);
        }
    }

    void fail(RuntimeException error) {
        String kind = "abort";
        if (error instanceof ProducerFencedException || error instanceof AuthorizationException
            || error instanceof IllegalStateException || producer == null && !(error instanceof RetriableException))
            kind = "fatal";
        else if (error instanceof RetriableException)
            kind = "retry";
        say("error " + kind + " " + error);
    }

    static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    static void moved(String cause, Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty())
            say("moved " + cause + " " + partitions.stream().map(tp -> tp.topic() + ":" + tp.partition())
                .collect(Collectors.joining(" ")));
    }

    public void onPartitionsAssigned(Collection<TopicPartition> partitions) { moved("rebalance", partitions); }
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) { moved("revocation", partitions); }
    public void onPartitionsLost(Collection<TopicPartition> partitions) { moved("lost", partitions); }
}
