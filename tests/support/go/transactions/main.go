// Transactions of franz-go: a group's session that reads a topic and writes to another one, exactly once.
// Arguments: the broker's address, the topics, the group, a transactional id, how many records to hand on.
// Every third transaction is aborted. Prints a line for each transaction, and what a fenced producer is told.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
)

const patience = 60 * time.Second

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	count, err := strconv.Atoi(os.Args[6])
	must(err)
	session := open()
	for turn, done := 0, 0; done < count; turn++ {
		records := session.PollRecords(ctx, 10).Records()
		must(ctx.Err())
		if len(records) == 0 {
			turn--
			continue
		}
		must(session.Begin())
		for _, record := range records {
			must(session.ProduceSync(ctx, &kgo.Record{Topic: os.Args[3], Value: record.Value}).FirstErr())
		}
		committed, err := session.End(ctx, kgo.TransactionEndTry(turn%3 != 1))
		must(err)
		fmt.Printf("%d records, committed %t\n", len(records), committed)
		if committed {
			done += len(records)
		}
	}
	fence(ctx, session)
}

func open() *kgo.GroupTransactSession {
	session, err := kgo.NewGroupTransactSession(
		kgo.SeedBrokers(os.Args[1]),
		kgo.ConsumeTopics(os.Args[2]),
		kgo.ConsumerGroup(os.Args[4]),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
		kgo.TransactionalID(os.Args[5]),
		kgo.FetchIsolationLevel(kgo.ReadCommitted()),
		kgo.RequireStableFetchOffsets(),
	)
	must(err)
	return session
}

// fence has a second producer take the transactional id while the session's transaction is open.
func fence(ctx context.Context, session *kgo.GroupTransactSession) {
	must(session.Begin())
	must(session.ProduceSync(ctx, &kgo.Record{Topic: os.Args[3], Value: []byte("of the first")}).FirstErr())
	second := successor(ctx)
	must(second.BeginTransaction())
	must(second.ProduceSync(ctx, &kgo.Record{Topic: os.Args[3], Value: []byte("of the second")}).FirstErr())
	must(second.EndTransaction(ctx, kgo.TryCommit))
	err := session.ProduceSync(ctx, &kgo.Record{Topic: os.Args[3], Value: []byte("from the dead")}).FirstErr()
	fmt.Printf("produce %s\n", name(err))
	_, err = session.End(ctx, kgo.TryCommit)
	fmt.Printf("commit %s\n", name(err))
	second.Close()
	session.Close()
}

// successor is a producer with the session's transactional id. The first ask for the id aborts the session's
// transaction, and franz-go gives up while that goes on.
func successor(ctx context.Context) *kgo.Client {
	for {
		client, err := kgo.NewClient(kgo.SeedBrokers(os.Args[1]), kgo.TransactionalID(os.Args[5]))
		must(err)
		_, _, err = client.ProducerID(ctx)
		if err == nil {
			return client
		}
		client.Close()
		if !errors.Is(err, kerr.ConcurrentTransactions) {
			panic(err)
		}
	}
}

func name(err error) string {
	var told *kerr.Error
	if errors.As(err, &told) {
		return told.Message
	}
	return fmt.Sprint(err)
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
