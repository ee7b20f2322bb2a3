"""What tests share, by what it is.

* `brokers`      brokers and controllers in processes of their own, as users start them, and their files
* `genuine`      other people's programs: Apache Kafka, its tools, Spark, kcat, and where they come from
* `clients`      what talks to a broker: raw connections, our own messages, librdkafka, loads that go on
* `questions`    requests in every version, changes of configs, and what Apache Kafka answered to them
* `rigs`         a part of the product with everything around it made by hand: clock, files, network, cluster
* `samples`      values to feed to it: batches good and bad, messages, arrays that are too long
* `histories`    histories written by hand, and made by a played cluster, for the checker of the simulator
* `log_story`    random sequences of operations on a log, and the model that they are compared with
* `fuzz`         requests that can be read and mean harm, and what is watched meanwhile
* `go`, `java`, `kafka`, `node`, `spark`, `spark_newest`   sources and lock files for other languages' tools
"""
