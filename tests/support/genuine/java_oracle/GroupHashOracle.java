package org.apache.kafka.coordinator.group;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Proxy;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.coordinator.common.runtime.CoordinatorMetadataImage;

/** Answers sets of topics, one line of JSON each, with the hash of the group that subscribes them. */
public class GroupHashOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            Map<String, Long> hashes = new HashMap<>();
            for (JsonNode topic : JSON.readTree(line))
                hashes.put(topic.get("name").asText(), Utils.computeTopicHash(topic.get("name").asText(), image(topic)));
            out.println(Utils.computeGroupHash(hashes));
        }
        out.flush();
    }

    private static CoordinatorMetadataImage image(JsonNode topic) {
        return proxy(CoordinatorMetadataImage.class, Map.of("topicMetadata",
            Optional.of(proxy(CoordinatorMetadataImage.TopicMetadata.class, Map.of(
                "id", Uuid.fromString(topic.get("id").asText()),
                "name", topic.get("name").asText(),
                "partitionCount", topic.get("racks").size(),
                "partitionRacks", topic.get("racks"))))));
    }

    private static <T> T proxy(Class<T> type, Map<String, Object> answers) {
        return type.cast(Proxy.newProxyInstance(type.getClassLoader(), new Class<?>[] {type}, (self, method, given) -> {
            Object answer = answers.get(method.getName());
            if (!(answer instanceof JsonNode racks)) return answer;
            List<String> found = new ArrayList<>();
            racks.get((Integer) given[0]).forEach(each -> found.add(each.asText()));
            return found;
        }));
    }
}
