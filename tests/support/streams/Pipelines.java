// Word count, windowed join and table, with Kafka Streams; the topics are named in pipelines.py.
//
//     java Pipelines BOOTSTRAP NAME FOLDER GUARANTEE COMMIT_INTERVAL_MS [FILE…]
//
// Settings of a file replace those below. Each further file is that of a further application, whose name it has.

import java.io.IOException;
import java.io.Reader;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.JoinWindows;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

public class Pipelines {
    static final Duration WINDOW = Duration.ofSeconds(1);

    public static void main(String[] words) throws InterruptedException, IOException {
        run(words, words.length > 5 ? Path.of(words[5]) : null);
        for (int i = 6; i < words.length; i++)
            run(words, Path.of(words[i]));
        new CountDownLatch(1).await();
    }

    static void run(String[] words, Path more) throws IOException {
        Properties settings = new Properties();
        settings.putAll(Map.of(
            "bootstrap.servers", words[0], "application.id", words[1], "state.dir", words[2],
            "processing.guarantee", words[3], "commit.interval.ms", words[4],
            "replication.factor", 3, "statestore.cache.max.bytes", 0, "default.dsl.store", "in_memory"));
        settings.putAll(Map.of(
            "default.key.serde", Serdes.StringSerde.class, "default.value.serde", Serdes.StringSerde.class,
            "consumer.auto.offset.reset", "earliest", "consumer.session.timeout.ms", 6_000,
            "consumer.heartbeat.interval.ms", 500, "request.timeout.ms", 3_000, "producer.linger.ms", 0));
        if (more != null) {
            try (Reader file = Files.newBufferedReader(more)) {
                settings.load(file);
            }
        }
        String name = settings.getProperty("application.id");
        settings.put("consumer.group.instance.id", name);
        StreamsBuilder builder = new StreamsBuilder();
        count(builder, name);
        join(builder, name);
        table(builder, name);
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(failure -> {
            System.err.println("a thread is replaced: " + failure);
            return StreamThreadExceptionResponse.REPLACE_THREAD;
        });
        streams.start();
    }

    // lines -> how often each word occurs, a record for each occurrence
    static void count(StreamsBuilder builder, String name) {
        KStream<String, String> lines = builder.stream(name + "-lines");
        lines.flatMapValues(line -> List.of(line.split(" "))).groupBy((key, word) -> word).count()
            .toStream().mapValues(String::valueOf).to(name + "-counts");
    }

    // pairs of records of two streams with the same key, not further apart than the window
    static void join(StreamsBuilder builder, String name) {
        KStream<String, String> left = builder.stream(name + "-left"), right = builder.stream(name + "-right");
        left.join(right, (one, other) -> one + " " + other, JoinWindows.ofTimeDifferenceAndGrace(WINDOW, Duration.ofDays(1)))
            .to(name + "-joined");
    }

    // the city of each user -> the number of users of each city
    static void table(StreamsBuilder builder, String name) {
        builder.table(name + "-cities", Consumed.with(Serdes.String(), Serdes.String()))
            .groupBy((user, city) -> KeyValue.pair(city, user), Grouped.with(Serdes.String(), Serdes.String()))
            .count(Materialized.with(Serdes.String(), Serdes.Long()))
            .toStream().mapValues(String::valueOf).to(name + "-users", Produced.with(Serdes.String(), Serdes.String()));
    }
}
