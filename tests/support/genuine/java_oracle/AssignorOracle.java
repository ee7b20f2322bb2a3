package org.apache.kafka.coordinator.group.assignor;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.group.api.assignor.ConsumerGroupPartitionAssignor;
import org.apache.kafka.coordinator.group.api.assignor.SubscribedTopicDescriber;
import org.apache.kafka.coordinator.group.api.assignor.SubscriptionType;
import org.apache.kafka.coordinator.group.modern.Assignment;
import org.apache.kafka.coordinator.group.modern.GroupSpecImpl;
import org.apache.kafka.coordinator.group.modern.MemberSubscriptionAndAssignmentImpl;

/** Answers groups, one line of JSON each, with the assignment that Kafka's own assignors give them. */
public class AssignorOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine())
            out.println(JSON.writeValueAsString(assign(JSON.readTree(line))));
        out.flush();
    }

    private static Map<String, Map<String, Set<Integer>>> assign(JsonNode question) {
        Map<Uuid, Integer> counts = new HashMap<>();
        Map<Uuid, String> names = new HashMap<>();
        question.get("topics").fields().forEachRemaining(each -> {
            counts.put(uuid(each.getKey()), each.getValue().asInt());
            names.put(uuid(each.getKey()), each.getKey());
        });
        Map<String, MemberSubscriptionAndAssignmentImpl> members = new LinkedHashMap<>();
        Map<Uuid, Map<Integer, String>> owners = new HashMap<>();
        for (JsonNode member : question.get("members")) {
            Set<Uuid> subscribed = new LinkedHashSet<>();
            member.get("topics").forEach(each -> subscribed.add(uuid(each.asText())));
            Map<Uuid, Set<Integer>> assigned = new LinkedHashMap<>();
            for (JsonNode each : member.get("assigned")) {
                Set<Integer> partitions = new LinkedHashSet<>();
                each.get(1).forEach(number -> partitions.add(number.asInt()));
                assigned.put(uuid(each.get(0).asText()), partitions);
                for (int number : partitions)
                    owners.computeIfAbsent(uuid(each.get(0).asText()), key -> new HashMap<>())
                        .put(number, member.get("id").asText());
            }
            members.put(member.get("id").asText(), new MemberSubscriptionAndAssignmentImpl(
                text(member.get("rack")), text(member.get("instance")), subscribed,
                new Assignment(Collections.unmodifiableMap(assigned))));
        }
        SubscribedTopicDescriber describer = new SubscribedTopicDescriber() {
            @Override
            public int numPartitions(Uuid topic) {
                return counts.getOrDefault(topic, -1);
            }

            @Override
            public Set<String> racksForPartition(Uuid topic, int partition) {
                return Set.of("rack" + partition % 3);
            }
        };
        ConsumerGroupPartitionAssignor assignor =
            question.get("assignor").asText().equals("range") ? new RangeAssignor() : new UniformAssignor();
        SubscriptionType type = question.get("homogeneous").asBoolean()
            ? SubscriptionType.HOMOGENEOUS : SubscriptionType.HETEROGENEOUS;
        Map<String, Map<String, Set<Integer>>> answer = new TreeMap<>();
        assignor.assign(new GroupSpecImpl(members, type, owners), describer).members().forEach((id, given) -> {
            Map<String, Set<Integer>> found = new TreeMap<>();
            given.partitions().forEach((topic, partitions) -> {
                if (!partitions.isEmpty()) found.put(names.get(topic), new TreeSet<>(partitions));
            });
            if (!found.isEmpty()) answer.put(id, found);
        });
        return answer;
    }

    private static Optional<String> text(JsonNode value) {
        return value.isNull() ? Optional.empty() : Optional.of(value.asText());
    }

    private static Uuid uuid(String hex) {
        return new Uuid(Long.parseUnsignedLong(hex.substring(0, 16), 16),
            Long.parseUnsignedLong(hex.substring(16), 16));
    }
}
