// A consumer group of franz-go: reads one record of a topic and says so.
// Arguments: the broker's address, topic, group, and "next" for a client that takes the newer protocol where
// it is offered (KIP-848). Prints what it was told on the way.
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	options := []kgo.Opt{
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ConsumerGroup(os.Args[3]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.WithLogger(kgo.BasicLogger(os.Stderr, kgo.LogLevelInfo, nil)),
	}
	if len(os.Args) > 4 && os.Args[4] == "next" {
		opted := context.WithValue(context.Background(), "opt_in_kafka_next_gen_balancer_beta", true)
		options = append(options, kgo.WithContext(opted))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		panic(err)
	}
	defer client.Close()
	for ctx.Err() == nil {
		fetches := client.PollFetches(ctx)
		for _, record := range fetches.Records() {
			fmt.Printf("read %s\n", record.Value)
			return
		}
		fmt.Printf("told %v\n", fetches.Err())
	}
	os.Exit(1)
}
