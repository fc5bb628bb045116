package kafka

// Stats are figures since the producer was made.
type Stats struct {
	// InFlightRecords and InFlightBytes are what is not acknowledged now, encoded.
	InFlightRecords, InFlightBytes int
	// Topics and Brokers are how many are in use, Lanes how many goroutines send.
	Topics, Brokers, Lanes int

	// Batches, Records and Bytes (on the wire) that are acknowledged.
	Batches, Records, Bytes uint64
	// Requests that were sent.
	Requests uint64
	// Resent counts the attempts after a batch's first.
	Resent uint64
	// Suppressed counts events that an earlier producer had published.
	Suppressed uint64
	// Retries tells why.
	Retries Retries
	// Splits of batches that a broker refused.
	Splits uint64
	// Connections opened for batches.
	Connections uint64
	// MetadataRefreshes, LeaderChanges, PartitionChanges (of a topic's count) and TopicsCreated.
	MetadataRefreshes, LeaderChanges, PartitionChanges, TopicsCreated uint64
	// ThrottleMillis is for how long brokers throttled this client.
	ThrottleMillis uint64
}

// Retries counts batches that had to be sent again, by cause.
type Retries struct {
	// Leader: not the leader, or no leader.
	Leader uint64
	// Replicas: too few in-sync replicas.
	Replicas uint64
	// Timeout: the followers took too long.
	Timeout uint64
	// Connection: lost, or no answer.
	Connection uint64
	// Other causes.
	Other uint64
}

// Stats is the state at this moment.
func (p *Producer) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.InFlightRecords, s.InFlightBytes = p.records, p.bytes
	s.Topics, s.Brokers = len(p.topics), len(p.cluster.brokers)
	for _, b := range p.cluster.brokers {
		s.Lanes += b.lanes
	}
	return s
}

// Plus adds the counts of two producers. What is in flight and in use is that of other, the later one.
func (s Stats) Plus(other Stats) Stats {
	sum := other
	sum.Batches += s.Batches
	sum.Records += s.Records
	sum.Bytes += s.Bytes
	sum.Requests += s.Requests
	sum.Resent += s.Resent
	sum.Suppressed += s.Suppressed
	sum.Retries.Leader += s.Retries.Leader
	sum.Retries.Replicas += s.Retries.Replicas
	sum.Retries.Timeout += s.Retries.Timeout
	sum.Retries.Connection += s.Retries.Connection
	sum.Retries.Other += s.Retries.Other
	sum.Splits += s.Splits
	sum.Connections += s.Connections
	sum.MetadataRefreshes += s.MetadataRefreshes
	sum.LeaderChanges += s.LeaderChanges
	sum.PartitionChanges += s.PartitionChanges
	sum.TopicsCreated += s.TopicsCreated
	sum.ThrottleMillis += s.ThrottleMillis
	return sum
}
