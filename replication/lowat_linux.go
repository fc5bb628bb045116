package replication

import (
	"net"
	"syscall"
)

// setLowWater asks the kernel to wake a reader of conn only when this many bytes wait (SO_RCVLOWAT). It
// reports whether the socket can do that.
func setLowWater(conn syscall.Conn, bytes int) bool {
	raw, err := conn.SyscallConn()
	if err != nil {
		return false
	}
	set := false
	err = raw.Control(func(fd uintptr) {
		set = syscall.SetsockoptInt(int(fd), syscall.SOL_SOCKET, syscall.SO_RCVLOWAT, bytes) == nil
	})
	return err == nil && set
}

// lowWater finds the TCP socket below conn, also below TLS; nil if there is none.
func lowWater(conn net.Conn) syscall.Conn {
	for {
		switch c := conn.(type) {
		case *net.TCPConn:
			return c
		case interface{ NetConn() net.Conn }:
			conn = c.NetConn()
		default:
			return nil
		}
	}
}
