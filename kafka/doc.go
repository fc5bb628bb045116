// Package kafka is the relay's Kafka producer: idempotent, in order, and it never gives up. It uses kafka-go's message
// codecs, SASL and compression on sockets of its own.
//
// What it promises:
//
//   - A partition's records stand in the log in the order of Append, each once, through retries, lost connections, and
//     restarts and moves of brokers. At most one batch of a partition is on the wire. A batch that may have been
//     appended is sent again with the same bytes and the same sequence, and nothing of its partition goes before it.
//   - Nothing is dropped. A broker in trouble is retried without limit. A record that the broker refuses, and a topic
//     that is missing or forbidden, halt that partition or topic until somebody mends it; Trouble tells what to do.
//   - When a batch's fate cannot be known, or the brokers have lost what they knew of this producer, everything stops
//     and Run returns a *SessionError. The caller starts a new Producer and goes back to what was acknowledged.
//
// What it does not do: it does not fence an earlier producer, does not find out what is in a topic already, and does not
// block: where Append cannot take a record it says Full or Pending, and Notify tells when to offer the record again.
//
// # How it works
//
// Append encodes a record straight into the open batch of its partition, under the producer's one lock. A broker has up
// to four lanes: goroutines with a connection each that send one request at a time and wait for the answer. A lane takes
// one batch of every partition that has records and none on the wire. So batches grow by themselves while a request is
// under way, and one slow follower holds up only the partitions of its request. One goroutine asks for metadata and
// creates topics; one gets the producer id.
//
// # Concurrency
//
// Append is for one goroutine. The other methods are safe for any. Run owns every goroutine and waits for them.
// Config.OnBatch is called from the lanes, several at a time.
package kafka
