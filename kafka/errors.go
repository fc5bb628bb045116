package kafka

import "fmt"

// PoisonError says that a record can never be published as it is. It is a property of this record alone: nothing that
// happens at the brokers mends it, and nothing was taken.
type PoisonError struct {
	// Reason is a short constant text, fit for a metric's label.
	Reason string
	// Topic is where the record should have gone.
	Topic string
	// Detail tells the figures.
	Detail string
}

// Reasons of a PoisonError.
const (
	ReasonTopicName   = "illegal topic name"
	ReasonPartition   = "partition out of range"
	ReasonRecordBytes = "record too large"
)

// Error names topic, reason and figures.
func (e *PoisonError) Error() string {
	if e.Detail == "" {
		return fmt.Sprintf("record for topic %q: %s", e.Topic, e.Reason)
	}
	return fmt.Sprintf("record for topic %q: %s: %s", e.Topic, e.Reason, e.Detail)
}

// SessionError ends a Producer: a batch's fate is unknown for good, the brokers lost what they knew of this producer,
// another producer took over, or a topic is not what it was. A new Producer must start from what was acknowledged.
type SessionError struct {
	// Topic and Partition are where it happened. Partition is -1 where it is about the topic, Topic is empty where it is
	// about the cluster.
	Topic     string
	Partition int32
	// Code is the broker's error code, 0 where the finding is our own.
	Code int16
	// Reason is the finding, or the broker's message.
	Reason string
}

// Error tells where and why.
func (e *SessionError) Error() string {
	text := "kafka session over"
	if e.Topic != "" {
		text += ": topic " + e.Topic
	}
	if e.Partition >= 0 {
		text += fmt.Sprintf(" partition %d", e.Partition)
	}
	if e.Code != 0 {
		text += ": " + codeName(e.Code)
	}
	if e.Reason != "" {
		text += ": " + e.Reason
	}
	return text
}

// Fenced tells whether another producer with the same transactional id took over.
func (e *SessionError) Fenced() bool {
	return e.Code == codeInvalidProducerEpoch || e.Code == codeProducerFenced
}

// brokerError is an error code of a broker, with its message where it sent one.
type brokerError struct {
	code    int16
	message string
}

func (e brokerError) Error() string {
	if e.message == "" {
		return codeName(e.code)
	}
	return codeName(e.code) + ": " + e.message
}

// verdict is what an error code means for the batch it answers.
type verdict byte

const (
	over      verdict = iota // fate unknown or state lost: the session ends
	done                     // appended, now or by an earlier attempt
	wait                     // the leader cannot now: same bytes after a pause
	moved                    // as wait, and somebody else may lead: ask for metadata
	refused                  // not appended because of what is in it, and the sequence is free: split down to the record
	tooLarge                 // as refused, and smaller batches help
	damaged                  // broken on the way, or refused: try a few times, then as refused
	forbidden                // not allowed on this topic: halted
)

// Codes that are looked at by themselves (Kafka documentation, "Error Codes").
const (
	codeNone                   = 0
	codeUnknownTopic           = 3
	codeLeaderNotAvailable     = 5
	codeReplicaNotAvailable    = 9
	codeInvalidTopic           = 17
	codeTopicForbidden         = 29
	codeClusterForbidden       = 31
	codeTopicExists            = 36
	codeNotController          = 41
	codePolicyViolation        = 44
	codeInvalidProducerEpoch   = 47
	codeProducerFenced         = 90
	codeInvalidPartitions      = 37
	codeInvalidReplication     = 38
	codeInvalidConfig          = 40
	codeTransactionalForbidden = 53

	codeCoordinatorLoading      = 14
	codeCoordinatorNotAvailable = 15
	codeNotCoordinator          = 16
	codeInvalidMapping          = 49
	codeConcurrentTransactions  = 51
	codeNotAttempted            = 55
)

// codes are the error codes that a producer may meet, and what each means as the answer to a batch.
var codes = map[int16]struct {
	name    string
	verdict verdict
}{
	-1:  {"UNKNOWN_SERVER_ERROR", over},
	0:   {"NONE", done},
	2:   {"CORRUPT_MESSAGE", damaged},
	3:   {"UNKNOWN_TOPIC_OR_PARTITION", moved},
	5:   {"LEADER_NOT_AVAILABLE", moved},
	6:   {"NOT_LEADER_OR_FOLLOWER", moved},
	7:   {"REQUEST_TIMED_OUT", wait},
	8:   {"BROKER_NOT_AVAILABLE", moved},
	9:   {"REPLICA_NOT_AVAILABLE", moved},
	10:  {"MESSAGE_TOO_LARGE", tooLarge},
	13:  {"NETWORK_EXCEPTION", moved},
	14:  {"COORDINATOR_LOAD_IN_PROGRESS", over},
	15:  {"COORDINATOR_NOT_AVAILABLE", over},
	16:  {"NOT_COORDINATOR", over},
	17:  {"INVALID_TOPIC_EXCEPTION", forbidden},
	18:  {"RECORD_LIST_TOO_LARGE", tooLarge},
	19:  {"NOT_ENOUGH_REPLICAS", wait},
	20:  {"NOT_ENOUGH_REPLICAS_AFTER_APPEND", wait},
	29:  {"TOPIC_AUTHORIZATION_FAILED", forbidden},
	31:  {"CLUSTER_AUTHORIZATION_FAILED", over},
	32:  {"INVALID_TIMESTAMP", refused},
	33:  {"UNSUPPORTED_SASL_MECHANISM", over},
	34:  {"ILLEGAL_SASL_STATE", over},
	35:  {"UNSUPPORTED_VERSION", over},
	36:  {"TOPIC_ALREADY_EXISTS", over},
	37:  {"INVALID_PARTITIONS", over},
	38:  {"INVALID_REPLICATION_FACTOR", over},
	39:  {"INVALID_REPLICA_ASSIGNMENT", over},
	40:  {"INVALID_CONFIG", over},
	41:  {"NOT_CONTROLLER", over},
	42:  {"INVALID_REQUEST", over},
	43:  {"UNSUPPORTED_FOR_MESSAGE_FORMAT", over},
	44:  {"POLICY_VIOLATION", over},
	45:  {"OUT_OF_ORDER_SEQUENCE_NUMBER", over},
	46:  {"DUPLICATE_SEQUENCE_NUMBER", done},
	47:  {"INVALID_PRODUCER_EPOCH", over},
	48:  {"INVALID_TXN_STATE", wait}, // kfake, for a plain batch while a fence is open; Kafka takes it
	49:  {"INVALID_PRODUCER_ID_MAPPING", over},
	51:  {"CONCURRENT_TRANSACTIONS", over},
	53:  {"TRANSACTIONAL_ID_AUTHORIZATION_FAILED", over},
	55:  {"OPERATION_NOT_ATTEMPTED", over},
	56:  {"KAFKA_STORAGE_ERROR", moved},
	58:  {"SASL_AUTHENTICATION_FAILED", over},
	59:  {"UNKNOWN_PRODUCER_ID", over},
	72:  {"LISTENER_NOT_FOUND", moved},
	74:  {"FENCED_LEADER_EPOCH", moved},
	75:  {"UNKNOWN_LEADER_EPOCH", moved},
	76:  {"UNSUPPORTED_COMPRESSION_TYPE", over},
	87:  {"INVALID_RECORD", refused},
	89:  {"THROTTLING_QUOTA_EXCEEDED", wait},
	90:  {"PRODUCER_FENCED", over},
	100: {"UNKNOWN_TOPIC_ID", moved},
}

// judge gives the verdict on a batch. A code that nobody here knows says nothing of the batch's fate.
func judge(code int16) verdict { return codes[code].verdict }

// notAppended tells whether a broker that answers with the code has certainly not appended the batch: it says so before
// it writes. An earlier attempt may still have.
func notAppended(code int16) bool {
	switch code {
	case 2, 3, 5, 6, 10, 17, 18, 19, 29, 32, 74, 75, 87:
		return true
	}
	return false
}

func codeName(code int16) string {
	if c, ok := codes[code]; ok {
		return c.name
	}
	return fmt.Sprintf("error code %d", code)
}
