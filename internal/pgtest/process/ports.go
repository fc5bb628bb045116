package process

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken from below the ranges from which the kernels choose the ports of outgoing connections (32768 and up on
// Linux, 49152 and up elsewhere): a client cannot take the port of a server that is down for a moment.
const firstPort, lastPort = 20000, 32000

// FreePorts finds n different TCP ports that nobody listens on at this moment on loopback. Another process may still
// take one before it is used.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range 1000 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // after all were found, so that they differ
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("find %d free ports between %d and %d: nearly all are taken", n, firstPort, lastPort)
}
