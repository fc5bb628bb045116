//go:build race

package relay

func init() { raced = true }
