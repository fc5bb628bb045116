//go:build linux && !race

package socket

import (
	"io"
	"net"
	"os"
	"runtime"
	"syscall"
	"unsafe"
)

// Quiet returns conn with reads and writes that do not tell the scheduler. One goroutine may read and one may write at a time.
// NetConn gives conn back. What is not a TCP connection is returned as it is.
func Quiet(conn net.Conn) net.Conn {
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		return conn
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return conn
	}
	q := &quiet{TCPConn: tcp, raw: raw}
	q.read.call, q.write.call = q.read.once(syscall.SYS_READ), q.write.once(syscall.SYS_WRITE)
	return q
}

type quiet struct {
	*net.TCPConn
	raw         syscall.RawConn
	read, write transfer
}

// transfer is one read or write under way. It lives as long as the connection, so that none of them allocates.
type transfer struct {
	b     []byte
	n     int
	errno syscall.Errno
	call  func(fd uintptr) (done bool)
}

// once makes the call that is tried whenever the socket is ready.
func (t *transfer) once(number uintptr) func(uintptr) bool {
	return func(fd uintptr) bool {
		for {
			n, _, errno := syscall.RawSyscall(number, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.b))), uintptr(len(t.b)))
			switch errno {
			case syscall.EINTR:
				continue
			case syscall.EAGAIN:
				return false
			}
			t.n, t.errno = int(n), errno
			return true
		}
	}
}

// NetConn is the connection as the standard library has it.
func (q *quiet) NetConn() net.Conn { return q.TCPConn }

func (q *quiet) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	n, err := q.do(&q.read, q.raw.Read, b, "read")
	if n == 0 && err == nil {
		return 0, io.EOF
	}
	return n, err
}

func (q *quiet) Write(b []byte) (int, error) {
	for written := 0; ; {
		if written == len(b) {
			return written, nil
		}
		n, err := q.do(&q.write, q.raw.Write, b[written:], "write")
		written += n
		if err != nil {
			return written, err
		}
	}
}

func (q *quiet) do(t *transfer, wait func(func(uintptr) bool) error, b []byte, name string) (int, error) {
	t.b, t.n, t.errno = b, 0, 0
	err := wait(t.call)
	runtime.KeepAlive(b)
	t.b = nil
	if err == nil && t.errno != 0 {
		err = &net.OpError{Op: name, Net: "tcp", Source: q.LocalAddr(), Addr: q.RemoteAddr(), Err: os.NewSyscallError(name, t.errno)}
		t.n = 0
	}
	return t.n, err
}
