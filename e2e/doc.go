// Package e2e has no code of its own: its tests run the real binary on real PostgreSQL and real Apache Kafka, as a user
// would, and audit what is in the topics. They need Java and Maven, see internal/kafkatest. The folder chaos has a command
// that does the same for hours.
//
// A relay, a server or a broker is ended by its process id only. Whatever is waited for is polled with a deadline; the
// moments of kills come from a seed that each run prints and SEED sets.
package e2e
