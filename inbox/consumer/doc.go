// Package consumer reads topics as a member of a consumer group and hands each message to a Handler: at least once, at most
// once, or, with the effect in a transaction of Postgres, exactly once. It is built on kafka-go.
//
// Messages of one key are handled in the order of their partition, through retries, rebalances and restarts. Offsets are
// committed only of what was handled, or has gone to the dead-letter topic; before a partition is handed over in a rebalance,
// the message under way is finished and committed. What cannot be handled is tried again for ever, or, with
// Config.Attempts, goes to the dead-letter topic or ends Run: nothing is skipped in silence.
//
// Transaction markers, which kafka-go hands out as messages, are skipped. Messages that retention has deleted before they
// were read are gone, as with every consumer.
//
// Run starts goroutines (one for each assigned partition, and for each lane of a batch) and returns when all have ended. A
// Handler is called from several of them.
package consumer
