//go:build !linux

package socket

import "net"

// Quiet is a gain on Linux only; elsewhere conn stays as it is.
func Quiet(conn net.Conn) net.Conn { return conn }
