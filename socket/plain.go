//go:build !linux || race

package socket

import "net"

// Quiet is a gain on Linux only; elsewhere conn stays as it is. So it does under the race detector, which has to see that what
// one end has written happens before the other has read it.
func Quiet(conn net.Conn) net.Conn { return conn }
