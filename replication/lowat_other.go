//go:build !linux

package replication

import (
	"net"
	"syscall"
)

// setLowWater is a Linux gain only; elsewhere every byte wakes the reader.
func setLowWater(syscall.Conn, int) bool { return false }

func lowWater(net.Conn) syscall.Conn { return nil }
