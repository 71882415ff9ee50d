// A member of a group with Kafka's own Java client, which does what its standard input says.
//
//   java GroupMember BOOTSTRAP GROUP classic|consumer SESSION_MS TOPIC...
//
// poll                              records TOPIC:PARTITION:OFFSET:VALUE...
// store TOPIC:PARTITION:OFFSET...   done: commits these offsets, of the partitions that it has
// leave                             done
//
// Any of them may be answered by: error TEXT. At any time: moved assigned|revoked|lost NANOSECONDS TOPIC:PARTITION...

import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;

public class GroupMember implements ConsumerRebalanceListener {
    static final String TEXT = "org.apache.kafka.common.serialization.StringDeserializer";
    KafkaConsumer<String, String> consumer;

    public static void main(String[] words) throws Exception {
        GroupMember member = new GroupMember();
        member.start(words);
        BufferedReader input = new BufferedReader(new InputStreamReader(System.in));
        for (String line = input.readLine(); line != null; line = input.readLine()) {
            try {
                member.obey(line.split(" "));
            } catch (KafkaException | IllegalStateException error) {
                say("error " + error);
            }
        }
        Runtime.getRuntime().halt(0);
    }

    void start(String[] words) {
        Map<String, Object> settings = new HashMap<>(Map.of(
            "bootstrap.servers", words[0], "group.id", words[1], "group.protocol", words[2],
            "enable.auto.commit", false, "auto.offset.reset", "earliest", "request.timeout.ms", 3_000,
            "default.api.timeout.ms", 10_000, "key.deserializer", TEXT, "value.deserializer", TEXT));
        if (words[2].equals("classic")) {
            settings.put("session.timeout.ms", Integer.valueOf(words[3]));
            settings.put("heartbeat.interval.ms", 1_000);
            settings.put("partition.assignment.strategy", "org.apache.kafka.clients.consumer.RangeAssignor");
        }
        consumer = new KafkaConsumer<>(settings);
        consumer.subscribe(List.of(words).subList(4, words.length), this);
    }

    void obey(String[] words) {
        switch (words[0]) {
            case "poll" -> poll();
            case "store" -> store(words);
            case "leave" -> { consumer.close(); say("done"); }
            default -> throw new IllegalArgumentException(words[0]);
        }
    }

    void poll() {
        StringBuilder found = new StringBuilder("records");
        for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(300)))
            found.append(' ').append(record.topic()).append(':').append(record.partition()).append(':')
                .append(record.offset()).append(':').append(record.value());
        say(found.toString());
    }

    void store(String[] words) {
        Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
        for (String word : List.of(words).subList(1, words.length)) {
            String[] parts = word.split(":");
            TopicPartition partition = new TopicPartition(parts[0], Integer.parseInt(parts[1]));
            if (consumer.assignment().contains(partition))
                offsets.put(partition, new OffsetAndMetadata(Long.parseLong(parts[2])));
        }
        consumer.commitSync(offsets);
        say("done");
    }

    static synchronized void say(String line) {
        System.out.println(line.replace('\n', ' '));
        System.out.flush();
    }

    static void moved(String cause, Collection<TopicPartition> partitions) {
        if (!partitions.isEmpty())
            say("moved " + cause + " " + System.nanoTime() + " " + partitions.stream()
                .map(tp -> tp.topic() + ":" + tp.partition()).collect(Collectors.joining(" ")));
    }

    public void onPartitionsAssigned(Collection<TopicPartition> partitions) { moved("assigned", partitions); }
    public void onPartitionsRevoked(Collection<TopicPartition> partitions) { moved("revoked", partitions); }
    public void onPartitionsLost(Collection<TopicPartition> partitions) { moved("lost", partitions); }
}
