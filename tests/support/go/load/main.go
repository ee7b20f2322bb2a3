// Producers or consumers of franz-go, each a client of its own, as fast as they can.
// The one argument is the broker's address; jobs come on standard input, see tests/performance/genuine_programs.py.
// Settings are the library's own, but for its compression of what is produced: none, as the others do by default.
package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

var input = bufio.NewReader(os.Stdin)

// A load is ready to begin; work returns when it is done, and close gives back what it holds.
type load struct {
	work  func(over *atomic.Bool)
	close func()
}

func main() {
	for {
		line, err := input.ReadString('\n')
		if err != nil {
			return
		}
		var topic string
		var clients, recordBytes, partitions, records int
		var warm, seconds float64
		var loads []load
		var done atomic.Int64
		if n, _ := fmt.Sscanf(line, "produce %s %d %d %g %g", &topic, &clients, &recordBytes, &warm, &seconds); n == 5 {
			for range clients {
				loads = append(loads, producer(topic, recordBytes, &done))
			}
			produce(loads, warm, seconds, &done)
		} else if n, _ := fmt.Sscanf(line, "consume %s %d %d %d", &topic, &clients, &partitions, &records); n == 4 {
			for index := range clients {
				loads = append(loads, consumer(topic, index, clients, partitions, int64(records), &done))
			}
			began := awaitGo()
			start(loads, nil).Wait()
			tell(done.Load(), began)
		} else {
			panic("no job: " + line)
		}
		for _, each := range loads {
			each.close()
		}
		fmt.Println("done")
	}
}

func produce(loads []load, warm, seconds float64, done *atomic.Int64) {
	var over atomic.Bool
	all := start(loads, &over)
	sleep(warm)
	began, before := awaitGo(), done.Load()
	sleep(seconds)
	tell(done.Load()-before, began)
	over.Store(true)
	all.Wait()
}

func start(loads []load, over *atomic.Bool) *sync.WaitGroup {
	var all sync.WaitGroup
	for _, each := range loads {
		all.Add(1)
		go func() {
			defer all.Done()
			each.work(over)
		}()
	}
	return &all
}

// awaitGo returns when the job may begin: its clock starts.
func awaitGo() time.Time {
	fmt.Println("ready")
	if _, err := input.ReadString('\n'); err != nil {
		os.Exit(0)
	}
	return time.Now()
}

func tell(records int64, began time.Time) {
	fmt.Printf("{\"records\": %d, \"seconds\": %.6f}\n", records, time.Since(began).Seconds())
}

func sleep(seconds float64) { time.Sleep(time.Duration(seconds * float64(time.Second))) }

func client(options ...kgo.Opt) *kgo.Client {
	made, err := kgo.NewClient(append(options, kgo.SeedBrokers(os.Args[1]))...)
	if err != nil {
		panic(err)
	}
	return made
}

func producer(topic string, recordBytes int, done *atomic.Int64) load {
	producing := client(kgo.DefaultProduceTopic(topic), kgo.ProducerBatchCompression(kgo.NoCompression()))
	value := bytes.Repeat([]byte{'x'}, recordBytes)
	if err := producing.ProduceSync(context.Background(), kgo.SliceRecord(value)).FirstErr(); err != nil {
		panic(err)
	}
	acknowledged := func(_ *kgo.Record, err error) {
		if err != nil {
			panic(err)
		}
		done.Add(1)
	}
	work := func(over *atomic.Bool) {
		for !over.Load() {
			producing.Produce(context.Background(), kgo.SliceRecord(value), acknowledged)
		}
		if err := producing.Flush(context.Background()); err != nil {
			panic(err)
		}
	}
	return load{work, producing.Close}
}

// consumer reads every so manieth partition, until all consumers together have read so many records.
func consumer(topic string, index, consumers, partitions int, records int64, done *atomic.Int64) load {
	offsets := map[int32]kgo.Offset{}
	for partition := index; partition < partitions; partition += consumers {
		offsets[int32(partition)] = kgo.NewOffset().AtStart()
	}
	consuming := client()
	work := func(*atomic.Bool) {
		consuming.AddConsumePartitions(map[string]map[int32]kgo.Offset{topic: offsets})
		for done.Load() < records {
			ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
			fetches := consuming.PollFetches(ctx)
			cancel()
			for _, failed := range fetches.Errors() {
				if failed.Err != context.DeadlineExceeded {
					panic(failed.Err)
				}
			}
			done.Add(int64(fetches.NumRecords()))
		}
	}
	return load{work, consuming.Close}
}
