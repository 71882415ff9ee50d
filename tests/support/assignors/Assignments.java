import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.util.*;
import java.util.stream.Collectors;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.*;
import org.apache.kafka.coordinator.group.assignor.*;
import org.apache.kafka.coordinator.group.modern.*;

/**
 * Asks the assignors of Apache Kafka. A question is a line: assignor, "same" or "other" subscriptions, topics (id=partitions),
 * then members (id|instance id|topic ids|topic=partitions&topic=partitions), separated by ";". Lists have commas.
 * The answer is a line in the same form: member|topic=partitions&topic=partitions;...
 */
public class Assignments {
    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line = in.readLine(); line != null; line = in.readLine()) System.out.println(answer(line.split(";", -1)));
    }

    static String answer(String[] parts) throws Exception {
        Map<Uuid, Integer> counts = new LinkedHashMap<>();
        for (String topic : listed(parts[2])) counts.put(Uuid.fromString(topic.split("=")[0]), Integer.parseInt(topic.split("=")[1]));
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new HashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (int i = 3; i < parts.length; i++) {
            String[] member = parts[i].split("\\|", -1);
            Set<Uuid> subscribed = new LinkedHashSet<>();
            for (String topic : listed(member[2])) subscribed.add(Uuid.fromString(topic));
            Map<Uuid, Set<Integer>> target = partitions(member[3]);
            target.forEach((topic, those) -> those.forEach(p -> owners.computeIfAbsent(topic, t -> new HashMap<>()).put(p, member[0])));
            Optional<String> instance = member[1].isEmpty() ? Optional.empty() : Optional.of(member[1]);
            members.put(member[0], new MemberSubscriptionAndAssignmentImpl(
                Optional.empty(), instance, subscribed, new Assignment(Collections.unmodifiableMap(target))));
        }
        SubscriptionType type = parts[1].equals("same") ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        PartitionAssignor assignor = parts[0].equals("range") ? new RangeAssignor() : new UniformAssignor();
        GroupAssignment found = assignor.assign(new GroupSpecImpl(members, type, owners), new SubscribedTopicDescriber() {
            public int numPartitions(Uuid topic) { return counts.getOrDefault(topic, -1); }
            public Set<String> racksForPartition(Uuid topic, int partition) { return Set.of(); }
            public Set<Integer> assignablePartitions(Uuid topic) { return Set.of(); }
        });
        return found.members().entrySet().stream().map(e -> e.getKey() + "|" + text(e.getValue().partitions())).collect(Collectors.joining(";"));
    }

    static Map<Uuid, Set<Integer>> partitions(String text) {
        Map<Uuid, Set<Integer>> found = new HashMap<>();
        for (String topic : text.isEmpty() ? new String[0] : text.split("&")) {
            List<Integer> numbers = Arrays.stream(topic.split("=")[1].split(",")).map(Integer::valueOf).collect(Collectors.toList());
            found.put(Uuid.fromString(topic.split("=")[0]), new HashSet<>(numbers));
        }
        return found;
    }

    static String text(Map<Uuid, Set<Integer>> partitions) {
        return partitions.entrySet().stream().map(e -> e.getKey() + "=" + e.getValue().stream().sorted().map(String::valueOf)
            .collect(Collectors.joining(","))).collect(Collectors.joining("&"));
    }

    static String[] listed(String text) { return text.isEmpty() ? new String[0] : text.split(","); }
}
