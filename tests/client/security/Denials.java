import java.time.Duration;
import java.util.*;
import java.util.concurrent.Callable;
import java.util.concurrent.ExecutionException;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.acl.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.quota.ClientQuotaFilter;
import org.apache.kafka.common.resource.*;
import org.apache.kafka.common.security.plain.PlainLoginModule;
import org.apache.kafka.common.serialization.*;

/** What calls of Kafka's clients raise that may not do what they ask; a line for each: the case, and the class. */
public class Denials {
    static final Duration SOON = Duration.ofSeconds(20);
    static final TopicPartition SEEN = new TopicPartition("seen", 0), HIDDEN = new TopicPartition("hidden", 0);
    static String bootstrap;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        producers();
        for (String protocol : List.of("classic", "consumer")) {
            consumers(protocol);
        }
        admins();
    }

    static void producers() throws Exception {
        try (var producer = producer("bob", Map.of())) {
            say("send, idempotent", () -> producer.send(record("seen")).get());
        }
        try (var producer = producer("alice", Map.of())) {
            say("send, hidden", () -> producer.send(record("hidden")).get());
            say("send, seen", () -> producer.send(record("seen")).get());
        }
        try (var producer = producer("alice", Map.of("transactional.id", "other"))) {
            say("transaction, id", () -> { producer.initTransactions(); producer.beginTransaction(); return null; });
        }
        for (String topic : List.of("hidden", "seen")) {
            try (var producer = producer("alice", Map.of("transactional.id", "writer"))) {
                producer.initTransactions();
                producer.beginTransaction();
                say("transaction, send, " + topic, () -> producer.send(record(topic)).get());
                say("transaction, commit after " + topic, () -> { producer.commitTransaction(); return null; });
                say("transaction, abort after " + topic, () -> { producer.abortTransaction(); return null; });
            }
        }
        try (var producer = producer("alice", Map.of("transactional.id", "writer"))) {
            producer.initTransactions();
            producer.beginTransaction();
            producer.send(record("known")).get();
            var group = new ConsumerGroupMetadata("strangers");
            say("transaction, offsets", () -> { producer.sendOffsetsToTransaction(one(SEEN), group); return null; });
            say("transaction, commit after offsets", () -> { producer.commitTransaction(); return null; });
        }
    }

    static void consumers(String protocol) {
        for (String topic : List.of("hidden", "seen")) {
            try (var consumer = consumer(protocol, "readers")) {
                consumer.subscribe(List.of(topic));
                for (String time : List.of("first", "second")) {
                    say(protocol + ", poll, " + topic + ", " + time, () -> poll(consumer));
                }
            }
        }
        try (var consumer = consumer(protocol, "strangers")) {
            consumer.subscribe(List.of("known"));
            for (String time : List.of("first", "second")) {
                say(protocol + ", poll, group, " + time, () -> poll(consumer));
            }
            consumer.unsubscribe();
            consumer.assign(List.of(SEEN));
            say(protocol + ", commit, group", () -> { consumer.commitSync(one(SEEN)); return null; });
            say(protocol + ", committed, group", () -> consumer.committed(Set.of(SEEN)));
            say(protocol + ", position, group", () -> consumer.position(SEEN, SOON));
        }
        try (var consumer = consumer(protocol, "readers")) {
            consumer.assign(List.of(SEEN));
            say(protocol + ", assigned, seen", () -> poll(consumer));
            say(protocol + ", commit, seen", () -> { consumer.commitSync(one(SEEN)); return null; });
            consumer.assign(List.of(HIDDEN));
            say(protocol + ", assigned, hidden", () -> poll(consumer));
            say(protocol + ", position, hidden", () -> consumer.position(HIDDEN, SOON));
            say(protocol + ", committed, hidden", () -> consumer.committed(Set.of(HIDDEN)));
            say(protocol + ", commit, hidden", () -> { consumer.commitSync(one(HIDDEN)); return null; });
            say(protocol + ", partitions, hidden", () -> consumer.partitionsFor("hidden"));
            say(protocol + ", beginning, hidden", () -> consumer.beginningOffsets(List.of(HIDDEN)));
        }
    }

    static void admins() {
        try (var admin = Admin.create(settings("alice", Map.of()))) {
            var topic = new ConfigResource(ConfigResource.Type.TOPIC, "hidden");
            var change = new AlterConfigOp(new ConfigEntry("retention.ms", "1000"), AlterConfigOp.OpType.SET);
            var acl = new AclBinding(new ResourcePattern(ResourceType.TOPIC, "x", PatternType.LITERAL),
                    new AccessControlEntry("User:x", "*", AclOperation.READ, AclPermissionType.ALLOW));
            var made = new NewTopic("made", 1, (short) 1);
            say("admin, create topic", () -> admin.createTopics(List.of(made)).all().get());
            say("admin, delete topic", () -> admin.deleteTopics(List.of("hidden")).all().get());
            say("admin, describe topic", () -> admin.describeTopics(List.of("hidden")).allTopicNames().get());
            var more = NewPartitions.increaseTo(9);
            say("admin, create partitions", () -> admin.createPartitions(Map.of("hidden", more)).all().get());
            say("admin, describe configs", () -> admin.describeConfigs(List.of(topic)).all().get());
            var changes = Map.<ConfigResource, Collection<AlterConfigOp>>of(topic, List.of(change));
            say("admin, alter configs", () -> admin.incrementalAlterConfigs(changes).all().get());
            say("admin, list offsets", () -> admin.listOffsets(Map.of(HIDDEN, OffsetSpec.latest())).all().get());
            var old = RecordsToDelete.beforeOffset(0);
            say("admin, delete records", () -> admin.deleteRecords(Map.of(HIDDEN, old)).all().get());
            say("admin, describe group", () -> admin.describeConsumerGroups(List.of("strangers")).all().get());
            say("admin, group offsets", () -> admin.listConsumerGroupOffsets("strangers").all().get());
            var offsets = one(HIDDEN);
            say("admin, alter group offsets", () -> admin.alterConsumerGroupOffsets("strangers", offsets).all().get());
            say("admin, delete group", () -> admin.deleteConsumerGroups(List.of("strangers")).all().get());
            say("admin, describe ACLs", () -> admin.describeAcls(AclBindingFilter.ANY).values().get());
            say("admin, create ACL", () -> admin.createAcls(List.of(acl)).all().get());
            say("admin, describe transaction", () -> admin.describeTransactions(List.of("other")).all().get());
            say("admin, describe quorum", () -> admin.describeMetadataQuorum().quorumInfo().get());
            say("admin, describe users", () -> admin.describeUserScramCredentials().all().get());
            var moved = Map.of(HIDDEN, Optional.of(new NewPartitionReassignment(List.of(1))));
            say("admin, reassign", () -> admin.alterPartitionReassignments(moved).all().get());
            say("admin, elect", () -> admin.electLeaders(ElectionType.PREFERRED, Set.of(HIDDEN)).all().get());
            say("admin, client quotas", () -> admin.describeClientQuotas(ClientQuotaFilter.all()).entities().get());
        }
    }

    static Object poll(KafkaConsumer<byte[], byte[]> consumer) {
        for (long end = System.currentTimeMillis() + 5000; System.currentTimeMillis() < end;) {
            consumer.poll(Duration.ofMillis(500));
        }
        return null;
    }

    static void say(String name, Callable<Object> call) {
        String outcome = "nothing";
        try {
            call.call();
        } catch (ExecutionException error) {
            outcome = error.getCause().getClass().getSimpleName();
        } catch (Exception error) {
            outcome = error.getClass().getSimpleName();
            if (error.getClass() == KafkaException.class) {
                outcome += " of " + error.getCause().getClass().getSimpleName();
            }
        }
        System.out.println(name + ": " + outcome);
        System.out.flush();
    }

    static Map<TopicPartition, OffsetAndMetadata> one(TopicPartition partition) {
        return Map.of(partition, new OffsetAndMetadata(1));
    }

    static ProducerRecord<byte[], byte[]> record(String topic) {
        return new ProducerRecord<>(topic, new byte[1]);
    }

    static KafkaProducer<byte[], byte[]> producer(String user, Map<String, Object> more) {
        return new KafkaProducer<>(settings(user, more), new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String protocol, String group) {
        var more = Map.<String, Object>of(
                "group.id", group, "group.protocol", protocol,
                "auto.offset.reset", "earliest", "enable.auto.commit", false);
        return new KafkaConsumer<>(settings("alice", more), new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    static Map<String, Object> settings(String user, Map<String, Object> more) {
        var settings = new HashMap<String, Object>(more);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", "PLAIN");
        settings.put("sasl.jaas.config", String.format(
                "%s required username=\"%s\" password=\"%s-secret\";", PlainLoginModule.class.getName(), user, user));
        return settings;
    }
}
