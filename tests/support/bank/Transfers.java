// Transfers with Kafka's own Java client; arguments as in work.py.

import java.io.FileReader;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.AuthorizationException;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.errors.RetriableException;

public class Transfers {
    static final String STRINGS = "org.apache.kafka.common.serialization.String";
    static String ledger;
    static int partitions;
    static long begun = 0;

    public static void main(String[] words) throws Exception {
        String id = words[1], group = words[2], source = words[3], role = words[6];
        ledger = words[4];
        partitions = Integer.parseInt(words[5]);
        Map<String, Object> writes = new HashMap<>(Map.of(
            "transactional.id", id, "transaction.timeout.ms", 20_000,
            "request.timeout.ms", 3_000, "max.block.ms", 30_000, "delivery.timeout.ms", 15_000,
            "key.serializer", STRINGS + "Serializer", "value.serializer", STRINGS + "Serializer"));
        Map<String, Object> reads = new HashMap<>(Map.of(
            "group.id", group, "isolation.level", "read_committed",
            "enable.auto.commit", false, "auto.offset.reset", "earliest", "max.poll.records", 10,
            "request.timeout.ms", 3_000, "key.deserializer", STRINGS + "Deserializer",
            "value.deserializer", STRINGS + "Deserializer"));
        Properties cluster = new Properties();
        try (FileReader file = new FileReader(words[0])) { cluster.load(file); }
        for (String name : cluster.stringPropertyNames()) {
            writes.put(name, cluster.getProperty(name));
            reads.put(name, cluster.getProperty(name));
        }
        reads.put("session.timeout.ms", 6_000);
        reads.put("heartbeat.interval.ms", 500);
        reads.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        if (role.equals("static")) reads.put("group.instance.id", id);
        try (KafkaProducer<String, String> producer = new KafkaProducer<>(writes)) {
            producer.initTransactions();
            try (KafkaConsumer<String, String> consumer = new KafkaConsumer<>(reads)) {
                if (Character.isDigit(role.charAt(0)))
                    consumer.assign(List.of(new TopicPartition(source, Integer.parseInt(role))));
                else
                    consumer.subscribe(List.of(source));
                while (true) {
                    List<ConsumerRecord<String, String>> records = new ArrayList<>();
                    consumer.poll(Duration.ofMillis(200)).forEach(records::add);
                    if (!records.isEmpty()) transfer(producer, consumer, records);
                }
            }
        }
    }

    static void transfer(KafkaProducer<String, String> producer, KafkaConsumer<String, String> consumer,
                         List<ConsumerRecord<String, String>> records) {
        boolean commits = ++begun % 8 != 2;
        String attempt = "java/" + ProcessHandle.current().pid() + "/" + begun + (commits ? "" : "!");
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        producer.beginTransaction();
        try {
            for (ConsumerRecord<String, String> one : records) {
                String[] words = one.value().split(" ");
                int size = 2 * records.size();
                enter(producer, attempt + " " + size + " " + words[0], words[1], "-" + words[3]);
                enter(producer, attempt + " " + size + " " + words[0], words[2], words[3]);
                offsets.put(new TopicPartition(one.topic(), one.partition()), new OffsetAndMetadata(one.offset() + 1));
            }
            if (commits) {
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                commit(producer);
                return;
            }
            producer.flush();
        } catch (ProducerFencedException | AuthorizationException fatal) {
            throw fatal;
        } catch (KafkaException failure) {
            System.err.println("aborting: " + failure);
        }
        producer.abortTransaction();
        Map<TopicPartition, OffsetAndMetadata> committed = consumer.committed(consumer.assignment());
        for (TopicPartition one : consumer.assignment())
            consumer.seek(one, committed.get(one) == null ? 0 : committed.get(one).offset());
    }

    static void enter(KafkaProducer<String, String> producer, String begin, String account, String change) {
        int partition = Integer.parseInt(account) % partitions;
        producer.send(new ProducerRecord<>(ledger, partition, null, begin + " " + account + " " + change));
    }

    static void commit(KafkaProducer<String, String> producer) {
        while (true) {
            try {
                producer.commitTransaction();
                return;
            } catch (RetriableException unknown) {
                System.err.println("again: " + unknown);
            }
        }
    }
}
