// What a console and an application ask of a broker through kafkajs.
// Prints a line a call: its name, a tab, the answer as JSON. The one argument is the broker's address.
const { Kafka, logLevel } = require("kafkajs");

const kafka = new Kafka({
  clientId: "console-js",
  brokers: [process.argv[2]],
  logLevel: logLevel.NOTHING,
  retry: { retries: 6, initialRetryTime: 50 },
});
const admin = kafka.admin();
const topic = "console-js";
const groupId = "console-js-group";

async function say(name, call) {
  let told;
  try {
    told = JSON.stringify((await call()) ?? null);
  } catch (error) {
    const details = (error.errors ?? []).map((each) => `${each.type ?? each.name} ${each.topic ?? ""} ${each.message}`);
    const groups = (error.groups ?? []).map((each) => `${each.groupId} ${each.error?.type}`);
    told = [error.type ?? error.name, error.message, ...details, ...groups].join("; ");
  }
  console.log(`${name}\t${told}`);
}

const byName = (left, right) => (left.configName ?? left.partition) < (right.configName ?? right.partition) ? -1 : 1;

async function topics() {
  await say("create", () => admin.createTopics({
    topics: [{ topic, numPartitions: 2, replicationFactor: 1, configEntries: [{ name: "retention.ms", value: "-1" }] }],
  }));
  await say("create again", () => admin.createTopics({ topics: [{ topic }] }));
  await say("create badly", () => admin.createTopics({ topics: [{ topic: "console-js-bad", replicationFactor: 3 }] }));
  await say("create, validate only", () => admin.createTopics({ validateOnly: true, topics: [{ topic: "console-js-ghost" }] }));
  await say("listed", async () => (await admin.listTopics()).includes(topic));
  await say("metadata", async () => {
    const { topics: [found] } = await admin.fetchTopicMetadata({ topics: [topic] });
    return found.partitions.sort((left, right) => left.partitionId - right.partitionId);
  });
  await say("grow", () => admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] }));
  await say("shrink", () => admin.createPartitions({ topicPartitions: [{ topic, count: 1 }] }));
}

async function records() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  await say("produce", async () => (await producer.send({
    topic,
    messages: [0, 1, 2, 3, 4].map((number) => ({
      partition: 0, key: `k${number}`, value: `v${number}`, timestamp: String(1600000000000 + number), headers: { of: "js" },
    })),
  })).map(({ partition, errorCode, baseOffset }) => ({ partition, errorCode, baseOffset })));
  await producer.disconnect();
  await say("offsets", async () => (await admin.fetchTopicOffsets(topic)).sort(byName));
  await say("offsets by time", async () => (await admin.fetchTopicOffsetsByTimestamp(topic, 1600000000003)).sort(byName));
  await say("delete records", () => admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "2" }] }));
  await say("delete records beyond the end", () => admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "99" }] }));
}

async function consume() {
  const consumer = kafka.consumer({ groupId, sessionTimeout: 10000, maxWaitTimeInMs: 100 });
  await consumer.connect();
  await consumer.subscribe({ topics: [topic], fromBeginning: true });
  const found = [];
  await new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`only ${found.length} records came`)), 20000);
    consumer.run({
      eachMessage: async ({ partition, message }) => {
        found.push([partition, message.offset, `${message.key}`, `${message.value}`, `${message.headers.of}`]);
        if (found.length === 3) {
          clearTimeout(timer);
          resolve();
        }
      },
    }).catch(reject);
  });
  await say("consumed", () => found);
  await say("a group at work", async () => {
    const { groups: [group] } = await admin.describeGroups([groupId]);
    return [group.groupId, group.state, group.protocol, group.protocolType, group.members.map((each) => [each.clientId, each.clientHost])];
  });
  await say("reset offsets of a group at work", () => admin.resetOffsets({ groupId, topic, earliest: true }));
  await say("delete a group at work", () => admin.deleteGroups([groupId]));
  await consumer.disconnect();
}

async function groups() {
  await say("fetch offsets", async () => admin.fetchOffsets({ groupId, topics: [topic] }));
  await say("set offsets", () => admin.setOffsets({ groupId, topic, partitions: [{ partition: 0, offset: "3" }] }));
  await say("offsets after it", async () => admin.fetchOffsets({ groupId, topics: [topic] }));
  await say("listed", async () => (await admin.listGroups()).groups.filter((each) => each.groupId === groupId));
  await say("describe", async () => (await admin.describeGroups([groupId, "console-js-nobody"])).groups.map((each) => [each.groupId, each.state, each.errorCode]));
  await say("delete", () => admin.deleteGroups([groupId, "console-js-nobody"]));
}

async function configs() {
  const resource = { type: 2, name: topic };
  const describe = async () => {
    const { resources: [found] } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
    return found.configEntries.sort(byName);
  };
  await say("configs", describe);
  await say("alter", () => admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: "segment.ms", value: "60000" }] }] }));
  await say("alter badly", () => admin.alterConfigs({ validateOnly: false, resources: [{ ...resource, configEntries: [{ name: "segment.ms", value: "soon" }] }] }));
  await say("configs after it", async () => {
    const isThere = (each) => each.configName === "segment.ms" && each.configValue === "60000";
    let found = await describe();
    for (let turn = 0; turn < 100 && !found.some(isThere); turn++) {
      await new Promise((resolve) => setTimeout(resolve, 50)); // a broker learns of it from the metadata log
      found = await describe();
    }
    return found.filter((each) => !each.isDefault);
  });
}

async function cluster() {
  await say("cluster", () => admin.describeCluster());
  await say("reassign", () => admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: [1] }] }] }));
  await say("reassign badly", () => admin.alterPartitionReassignments({ topics: [{ topic, partitionAssignment: [{ partition: 0, replicas: [9] }] }] }));
  await say("reassignments", () => admin.listPartitionReassignments({ topics: [{ topic, partitions: [0] }] }));
}

async function main() {
  await admin.connect();
  await topics();
  await records();
  await configs();
  await consume();
  await groups();
  await cluster();
  await say("delete topics", () => admin.deleteTopics({ topics: [topic] }));
  await admin.disconnect();
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
