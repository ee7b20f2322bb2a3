import java.io.*;
import java.nio.charset.StandardCharsets;
import java.util.*;
import java.lang.reflect.*;
import org.apache.kafka.common.config.*;
import org.apache.kafka.common.message.*;
import org.apache.kafka.server.config.*;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.coordinator.group.GroupConfig;
import org.apache.kafka.server.metrics.ClientMetricsConfigs;
import org.apache.kafka.metadata.*;
import kafka.server.*;
import com.fasterxml.jackson.databind.*;

/** Asks the genuine Kafka 4.3.1 classes what a config means: one JSON question a line, one JSON answer a line. */
public class ConfigOracle {
    static final ObjectMapper JSON = new ObjectMapper();

    static final List<String> SCOPES = List.of("broker", "topic", "group", "client-metrics");

    static ConfigDef def(String scope) {
        switch (scope) {
            case "broker": return KafkaConfig.configDef();
            case "topic": return LogConfig.configDefCopy();
            case "group": return GroupConfig.CONFIG_DEF;
            case "client-metrics": return ClientMetricsConfigs.configDef();
            default: throw new IllegalArgumentException(scope);
        }
    }

    static List<Object> dump() {
        List<Object> rows = new ArrayList<>();
        for (String scope : SCOPES) {
            for (ConfigDef.ConfigKey key : def(scope).configKeys().values()) {
                Map<String, Object> row = new LinkedHashMap<>();
                row.put("scope", scope);
                row.put("name", key.name);
                row.put("type", key.type.name().toLowerCase());
                boolean required = !key.hasDefault();
                row.put("default", required ? "NO_DEFAULT" : ConfigDef.convertToString(key.defaultValue, key.type));
                row.put("validator", key.validator == null ? null : key.validator.toString());
                row.put("importance", key.importance.name().toLowerCase());
                row.put("internal", key.internalConfig);
                rows.add(row);
            }
        }
        return rows;
    }

    static Map<String, String> strings(JsonNode node) {
        Map<String, String> map = new LinkedHashMap<>();
        if (node != null)
            node.fields().forEachRemaining(e -> map.put(e.getKey(), e.getValue().isNull() ? null : e.getValue().asText()));
        return map;
    }

    static Properties properties(JsonNode node) {
        Properties p = new Properties();
        p.putAll(strings(node));
        return p;
    }

    static Object value(JsonNode q) {
        ConfigDef def = def(q.get("scope").asText());
        String name = q.get("name").asText();
        ConfigDef.ConfigKey key = def.configKeys().get(name);
        Map<String, String> props = new HashMap<>();
        if (q.get("scope").asText().equals("broker")) {
            props.put("node.id", "1");
            props.put("process.roles", "broker,controller");
            props.put("controller.listener.names", "CONTROLLER");
            props.put("authorizer.class.name", "");
        }
        props.put(name, q.get("value").isNull() ? null : q.get("value").asText());
        Map<String, Object> parsed = def.parse(props);
        Object v = parsed.get(name);
        return v == null ? null : ConfigDef.convertToString(v, key.type);
    }

    static Map<String, Object> answer(JsonNode q) throws Throwable {
        Map<String, Object> out = new LinkedHashMap<>();
        switch (q.get("ask").asText()) {
            case "dump": out.put("ok", dump()); break;
            case "value": out.put("ok", value(q)); break;
            case "properties": {
                Properties p = new Properties();
                p.load(new StringReader(q.get("text").asText()));
                out.put("ok", new TreeMap<>(p));
                break;
            }
            case "broker": {
                KafkaConfig.fromProps(properties(q.get("config")), false);
                out.put("ok", "");
                break;
            }
            case "topic": {
                KafkaConfig broker = KafkaConfig.fromProps(properties(q.get("broker")), false);
                LogConfig.validate(Map.of(), strings(q.get("config")), broker.extractLogConfigMap(), false);
                Properties p = properties(q.get("config"));
                LogConfig config = LogConfig.fromProps(broker.extractLogConfigMap(), p);
                Map<String, Object> values = new TreeMap<>();
                for (String name : LogConfig.nonInternalConfigNames())
                    values.put(name, ConfigDef.convertToString(config.values().get(name), LogConfig.configType(name).get()));
                out.put("ok", values);
                break;
            }
            case "group": {
                KafkaConfig broker = KafkaConfig.fromProps(properties(q.get("broker")), false);
                GroupConfig.validateNames(strings(q.get("config")));
                GroupConfig.validate(strings(q.get("config")), broker.groupCoordinatorConfig(), broker.shareGroupConfig());
                out.put("ok", "");
                break;
            }
            case "client-metrics": {
                ClientMetricsConfigs.validate("subscription", properties(q.get("config")));
                out.put("ok", "");
                break;
            }
            case "env": {
                Object module = kafka.docker.KafkaDockerWrapper$.MODULE$;
                scala.collection.immutable.Map<String, String> env = scala.jdk.javaapi.CollectionConverters.asScala(strings(q.get("env")))
                    .toMap(scala.$less$colon$less$.MODULE$.refl());
                Method m = null;
                for (Method x : module.getClass().getMethods()) if (x.getName().equals("getServerConfigsFromEnv")) m = x;
                List<Object> lines = new ArrayList<>();
                scala.collection.Iterator<?> it = ((scala.collection.immutable.List<?>) m.invoke(module, env)).iterator();
                while (it.hasNext()) lines.add(it.next());
                out.put("ok", lines);
                break;
            }
            case "dynamic": {
                Properties p = properties(q.get("config"));
                org.apache.kafka.server.config.DynamicBrokerConfig.validateConfigs(p, q.get("per_broker").asBoolean());
                out.put("ok", "");
                break;
            }
            case "describe": {
                KafkaConfig broker = KafkaConfig.fromProps(properties(q.get("broker")), false);
                broker.dynamicConfig().initialize(scala.Option.empty());
                Properties perBroker = properties(q.get("dynamic_broker"));
                Properties cluster = properties(q.get("dynamic_default"));
                broker.dynamicConfig().updateDefaultConfig(cluster, true);
                broker.dynamicConfig().updateBrokerConfig(broker.brokerId(), perBroker, true);
                MetadataCache cache = (MetadataCache) Proxy.newProxyInstance(ConfigOracle.class.getClassLoader(),
                    new Class<?>[]{MetadataCache.class}, (o, m, a) -> m.getName().equals("contains") ? (Object) true : null);
                Properties resource = properties(q.get("resource"));
                ConfigRepository repo = r -> resource;
                ConfigHelper helper = new ConfigHelper(cache, broker, repo);
                DescribeConfigsRequestData.DescribeConfigsResource r = new DescribeConfigsRequestData.DescribeConfigsResource()
                    .setResourceType((byte) q.get("resource_type").asInt()).setResourceName(q.get("resource_name").asText())
                    .setConfigurationKeys(null);
                scala.collection.immutable.List<DescribeConfigsRequestData.DescribeConfigsResource> rs =
                    scala.jdk.javaapi.CollectionConverters.asScala(List.of(r)).toList();
                DescribeConfigsResponseData.DescribeConfigsResult result = helper.describeConfigs(rs, true, false).head();
                List<Object> rows = new ArrayList<>();
                for (DescribeConfigsResponseData.DescribeConfigsResourceResult c : result.configs()) {
                    if (q.path("only_set").asBoolean() && c.configSource() == 5) continue;
                    List<Object> synonyms = new ArrayList<>();
                    for (DescribeConfigsResponseData.DescribeConfigsSynonym s : c.synonyms())
                        synonyms.add(Arrays.asList(s.name(), s.value(), s.source()));
                    rows.add(Arrays.asList(c.name(), c.value(), c.configSource(), c.readOnly(), c.isSensitive(), c.configType(), synonyms));
                }
                rows.sort(Comparator.comparing(row -> (String) ((List<?>) row).get(0)));
                out.put("ok", rows);
                break;
            }
        }
        return out;
    }

    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        PrintStream out = new PrintStream(new FileOutputStream(FileDescriptor.out), true, "UTF-8");
        String line;
        while ((line = in.readLine()) != null) {
            Map<String, Object> answer;
            try {
                answer = answer(JSON.readTree(line));
            } catch (Throwable t) {
                while (t instanceof InvocationTargetException) t = t.getCause();
                answer = new LinkedHashMap<>();
                answer.put("error", t.getClass().getSimpleName());
                answer.put("message", t.getMessage());
            }
            out.println(JSON.writeValueAsString(answer));
        }
    }
}
