// Command billing is the consumer of the example: it books each event of an order once, with package inbox/consumer.
package main
