package org.apache.kafka.controller;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.metadata.PartitionChangeRecord;
import org.apache.kafka.common.metadata.PartitionChangeRecordJsonConverter;
import org.apache.kafka.metadata.LeaderRecoveryState;
import org.apache.kafka.metadata.PartitionRegistration;
import org.apache.kafka.metadata.placement.ClusterDescriber;
import org.apache.kafka.metadata.placement.PartitionAssignment;
import org.apache.kafka.metadata.placement.PlacementSpec;
import org.apache.kafka.metadata.placement.StripedReplicaPlacer;
import org.apache.kafka.metadata.placement.UsableBroker;
import org.apache.kafka.server.common.ApiMessageAndVersion;
import org.apache.kafka.server.common.MetadataVersion;

/**
 * Answers questions of one line of JSON each, with one line of JSON: "change" puts a change of a partition
 * together, "place" places replicas with a source of chance that is a function of the bound alone.
 */
public class ElectionOracle {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] arguments) throws Exception {
        PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8);
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            JsonNode question = JSON.readTree(line);
            out.println(question.has("place") ? place(question.get("place")) : change(question.get("change")));
        }
        out.flush();
    }

    private static String change(JsonNode question) {
        Set<Integer> active = new HashSet<>(list(question.get("active")));
        JsonNode minIsr = question.get("min_isr");
        PartitionChangeBuilder builder = new PartitionChangeBuilder(
            partition(question.get("partition")), Uuid.ONE_UUID, 0, active::contains,
            MetadataVersion.LATEST_PRODUCTION, minIsr.isNull() ? 1 : minIsr.asInt(), !minIsr.isNull());
        builder.setDefaultDirProvider(id -> new Uuid(7, id));
        builder.setElection(PartitionChangeBuilder.Election.valueOf(question.get("election").asText()));
        if (question.has("isr")) builder.setTargetIsr(list(question.get("isr")));
        if (question.has("replicas")) builder.setTargetReplicas(list(question.get("replicas")));
        if (question.has("removing")) builder.setTargetRemoving(list(question.get("removing")));
        if (question.has("adding")) builder.setTargetAdding(list(question.get("adding")));
        if (question.has("unclean_shutdown"))
            builder.setUncleanShutdownReplicas(List.of(question.get("unclean_shutdown").asInt()));
        if (question.has("leader_recovery_state"))
            builder.setTargetLeaderRecoveryState(
                LeaderRecoveryState.of((byte) question.get("leader_recovery_state").asInt()));
        if (question.has("directories")) {
            question.get("directories").fields().forEachRemaining(each ->
                builder.setDirectory(Integer.parseInt(each.getKey()), new Uuid(8, each.getValue().asInt())));
        }
        Optional<ApiMessageAndVersion> record = builder.build();
        if (record.isEmpty()) return "null";
        return PartitionChangeRecordJsonConverter.write(
            (PartitionChangeRecord) record.get().message(), (short) 2).toString();
    }

    private static PartitionRegistration partition(JsonNode state) {
        List<Integer> replicas = list(state.get("replicas"));
        Uuid[] directories = new Uuid[replicas.size()];
        for (int i = 0; i < directories.length; i++) directories[i] = new Uuid(6, replicas.get(i));
        return new PartitionRegistration.Builder()
            .setReplicas(array(state.get("replicas")))
            .setDirectories(directories)
            .setIsr(array(state.get("isr")))
            .setRemovingReplicas(array(state.get("removing")))
            .setAddingReplicas(array(state.get("adding")))
            .setElr(array(state.get("elr")))
            .setLastKnownElr(array(state.get("last_known_elr")))
            .setLeader(state.get("leader").asInt())
            .setLeaderRecoveryState(LeaderRecoveryState.of((byte) state.get("leader_recovery_state").asInt()))
            .setLeaderEpoch(3)
            .setPartitionEpoch(5)
            .build();
    }

    private static String place(JsonNode question) throws Exception {
        int seed = question.get("seed").asInt();
        Random random = new Random() {
            @Override
            public int nextInt(int bound) {
                return seed % bound;
            }
        };
        List<UsableBroker> brokers = new ArrayList<>();
        for (JsonNode each : question.get("brokers")) {
            JsonNode rack = each.get(1);
            brokers.add(new UsableBroker(each.get(0).asInt(),
                rack.isNull() ? Optional.empty() : Optional.of(rack.asText()), each.get(2).asBoolean()));
        }
        ClusterDescriber cluster = new ClusterDescriber() {
            @Override
            public Iterator<UsableBroker> usableBrokers() {
                return brokers.iterator();
            }

            @Override
            public Uuid defaultDir(int id) {
                return Uuid.ZERO_UUID;
            }
        };
        PlacementSpec spec = new PlacementSpec(
            0, question.get("partitions").asInt(), (short) question.get("factor").asInt());
        Map<String, Object> answer = new HashMap<>();
        try {
            List<List<Integer>> placed = new ArrayList<>();
            for (PartitionAssignment each : new StripedReplicaPlacer(random).place(spec, cluster).assignments())
                placed.add(each.replicas());
            answer.put("placed", placed);
        } catch (Exception refusal) {
            answer.put("refused", refusal.getMessage());
        }
        return JSON.writeValueAsString(answer);
    }

    private static List<Integer> list(JsonNode numbers) {
        List<Integer> found = new ArrayList<>();
        numbers.forEach(each -> found.add(each.asInt()));
        return found;
    }

    private static int[] array(JsonNode numbers) {
        return list(numbers).stream().mapToInt(Integer::intValue).toArray();
    }
}
