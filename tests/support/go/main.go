// What a web console asks of a broker, with kadm, the library of Redpanda Console.
// Prints a line a call: its name, a tab, the answer as JSON. The one argument is the broker's address.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"sort"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const topic = "console-go"

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		panic(err)
	}
	admin := kadm.NewClient(client)
	topics(ctx, admin)
	records(ctx, client, admin)
	configs(ctx, admin)
	groups(ctx, admin)
	placement(ctx, admin)
	gone(ctx, admin)
	admin.Close()
}

// say prints an answer; kerr's errors show their name, others their text.
func say(name string, answer any, err error) {
	text, failure := json.Marshal(answer)
	if failure != nil {
		panic(failure)
	}
	var told *kerr.Error
	if errors.As(err, &told) {
		fmt.Printf("%s\t%s %s\n", name, told.Message, text)
	} else if err != nil {
		fmt.Printf("%s\t%v %s\n", name, err, text)
	} else {
		fmt.Printf("%s\t%s\n", name, text)
	}
}

func topics(ctx context.Context, admin *kadm.Client) {
	week, bad := "604800000", "long"
	created, err := admin.CreateTopics(ctx, 2, 1, map[string]*string{"retention.ms": &week}, topic)
	say("create", created, err)
	await(ctx, admin)
	created, err = admin.CreateTopics(ctx, 2, 1, nil, topic)
	say("create again", created, err)
	created, err = admin.CreateTopics(ctx, 2, 1, map[string]*string{"retention.ms": &bad}, "console-bad")
	say("create with a bad config", created, err)
	created, err = admin.ValidateCreateTopics(ctx, 3, 1, nil, "console-ghost")
	say("create, validate only", created, err)
	brokers, err := admin.ListBrokers(ctx)
	say("brokers", brokers, err)
	listed, err := admin.ListTopics(ctx, topic, "console-nowhere")
	say("topics", listed, err)
	grown, err := admin.CreatePartitions(ctx, 1, topic, "console-nowhere")
	say("one partition more", grown, err)
	grown, err = admin.UpdatePartitions(ctx, 1, topic)
	say("fewer partitions", grown, err)
}

// await returns when the broker knows the topic: the controller's answer alone does not say that.
func await(ctx context.Context, admin *kadm.Client) {
	for {
		listed, err := admin.ListTopics(ctx, topic)
		if err == nil && listed.Error() == nil && len(listed[topic].Partitions) == 2 {
			return
		}
		if ctx.Err() != nil {
			panic(ctx.Err())
		}
	}
}

func records(ctx context.Context, client *kgo.Client, admin *kadm.Client) {
	for number := range 6 {
		record := &kgo.Record{Topic: topic, Partition: 0, Key: []byte{byte(number)}, Value: []byte("value"),
			Timestamp: time.UnixMilli(1_600_000_000_000 + int64(number)*1000)}
		if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
			panic(err)
		}
	}
	start, err := admin.ListStartOffsets(ctx, topic)
	say("start offsets", start, err)
	end, err := admin.ListEndOffsets(ctx, topic)
	say("end offsets", end, err)
	committed, err := admin.ListCommittedOffsets(ctx, topic)
	say("stable offsets", committed, err)
	greatest, err := admin.ListMaxTimestampOffsets(ctx, topic)
	say("offsets of the greatest time", greatest, err)
	after, err := admin.ListOffsetsAfterMilli(ctx, 1_600_000_002_500, topic)
	say("offsets after a time", after, err)
	nowhere, err := admin.ListEndOffsets(ctx, "console-nowhere")
	say("offsets of nothing", nowhere, err)
	producers, err := admin.DescribeProducers(ctx, kadm.TopicsSet{"console-nowhere": {0: {}}})
	say("producers of nothing", producers, err)
	deleted, err := admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 2}}})
	say("delete records", deleted, err)
	deleted, err = admin.DeleteRecords(ctx, kadm.Offsets{topic: {0: {Topic: topic, Partition: 0, At: 77}}})
	say("delete records beyond the end", deleted, err)
}

func configs(ctx context.Context, admin *kadm.Client) {
	described, err := admin.DescribeTopicConfigs(ctx, topic, "console-nowhere")
	for _, each := range described {
		sort.Slice(each.Configs, func(i, j int) bool { return each.Configs[i].Key < each.Configs[j].Key })
	}
	say("topic configs", described, err)
	ofBroker, err := admin.DescribeBrokerConfigs(ctx)
	say("cluster configs", ofBroker, err)
	hour := "3600000"
	change := []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "segment.ms", Value: &hour}}
	altered, err := admin.AlterTopicConfigs(ctx, change, topic, "console-nowhere")
	say("alter configs", altered, err)
	altered, err = admin.AlterTopicConfigsState(ctx, change, topic)
	say("replace configs", altered, err)
	altered, err = admin.AlterTopicConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "colour", Value: &hour}}, topic)
	say("alter an unknown config", altered, err)
	altered, err = admin.AlterBrokerConfigs(ctx, []kadm.AlterConfig{{Op: kadm.SetConfig, Name: "node.id", Value: &hour}}, 1)
	say("alter a read-only config", altered, err)
	resources, err := admin.ListConfigResources(ctx, kadm.ConfigResourceType(4))
	say("config resources", resources, err)
}

func groups(ctx context.Context, admin *kadm.Client) {
	offsets := kadm.Offsets{topic: {
		0: {Topic: topic, Partition: 0, At: 3, LeaderEpoch: -1, Metadata: "by hand"},
		9: {Topic: topic, Partition: 9, At: 3, LeaderEpoch: -1},
	}}
	committed, err := admin.CommitOffsets(ctx, "console-group", offsets)
	for errors.Is(committed[topic][0].Err, kerr.CoordinatorLoadInProgress) && ctx.Err() == nil {
		committed, err = admin.CommitOffsets(ctx, "console-group", offsets)
	}
	say("commit offsets", committed, err)
	fetched, err := admin.FetchOffsets(ctx, "console-group")
	say("fetch offsets", fetched, err)
	described, err := admin.DescribeGroups(ctx, "console-group", "console-nobody")
	say("describe groups", described, err)
	lag, err := admin.Lag(ctx, "console-group")
	say("lag", lag["console-group"].Lag, err)
	byState, err := admin.ListGroups(ctx, "Empty")
	say("list groups", byState["console-group"], err)
	byType, err := admin.ListGroupsByType(ctx, []string{"classic"})
	say("list groups by type", byType["console-group"], err)
	deleted, err := admin.DeleteOffsets(ctx, "console-group", kadm.TopicsSet{topic: {0: {}, 9: {}}, "console-nowhere": {0: {}}})
	say("delete offsets", deleted, err)
	gone, err := admin.DeleteGroups(ctx, "console-group", "console-nobody")
	say("delete groups", gone, err)
}

func placement(ctx context.Context, admin *kadm.Client) {
	which := kadm.TopicsSet{topic: {0: {}, 9: {}}, "console-nowhere": {0: {}}}
	elected, err := admin.ElectLeaders(ctx, kadm.ElectPreferredReplica, which)
	say("elect leaders", elected, err)
	var plan kadm.AlterPartitionAssignmentsReq
	plan.Assign(topic, 0, []int32{1})
	plan.Assign(topic, 1, []int32{7})
	plan.Assign("console-nowhere", 0, []int32{1})
	plan.CancelAssign(topic, 2)
	altered, err := admin.AlterPartitionAssignments(ctx, plan)
	say("reassign", altered, err)
	going, err := admin.ListPartitionReassignments(ctx, which)
	say("reassignments", going, err)
	folders, err := admin.DescribeAllLogDirs(ctx, kadm.TopicsSet{topic: {0: {}, 1: {}}})
	say("log dirs", folders[1].SortedPartitions(), err)
	var moves kadm.AlterReplicaLogDirsReq
	moves.Add("/nowhere", kadm.TopicsSet{topic: {0: {}}})
	moved, err := admin.AlterBrokerReplicaLogDirs(ctx, 1, moves)
	say("move a replica", moved, err)
}

func gone(ctx context.Context, admin *kadm.Client) {
	deleted, err := admin.DeleteTopics(ctx, topic, "console-nowhere")
	say("delete topics", deleted, err)
}
