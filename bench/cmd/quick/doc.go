// Quick runs the benchmark that make bench-quick names: walrelay beside pg_recvlogical, in less than ten minutes. Its last
// line is JSON.
package main
