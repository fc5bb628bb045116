package faultconn

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// listen serves each connection to a new address with handle, until the test ends.
func listen(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				handle(c)
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		running.Wait()
	})
	return l.Addr().String()
}

// each runs test with faults between it and a server, once with a Dialer and once with a Proxy.
func each(t *testing.T, handle func(net.Conn), test func(t *testing.T, f *Faults, connect func() net.Conn)) {
	t.Run("dialer", func(t *testing.T) {
		address, d := listen(t, handle), &Dialer{}
		test(t, &d.Faults, func() net.Conn { return dial(t, d.DialContext, address) })
	})
	t.Run("proxy", func(t *testing.T) {
		p := proxy(t, listen(t, handle))
		test(t, &p.Faults, func() net.Conn { return dial(t, new(net.Dialer).DialContext, p.Address()) })
	})
}

// echo sends everything back.
func echo(c net.Conn) { io.Copy(c, c) }

func proxy(t *testing.T, target string) *Proxy {
	t.Helper()
	p, err := NewProxy(target)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func dial(t *testing.T, dial func(context.Context, string, string) (net.Conn, error), address string) net.Conn {
	t.Helper()
	c, err := dial(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

func send(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if _, err := c.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

func receive(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil {
		t.Fatalf("read %q: %v", want, err)
	}
	if string(got) != want {
		t.Fatalf("read %q, want %q", got, want)
	}
}

// ends fails unless the next read meets the end of the connection.
func ends(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	n, err := c.Read(make([]byte, 1))
	if n != 0 || err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, error %v; want the end", n, err)
	}
}

// staysSilent fails if anything arrives within a short time.
func staysSilent(t *testing.T, c net.Conn) {
	t.Helper()
	c.SetReadDeadline(time.Now().Add(30 * time.Millisecond))
	if n, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("read %d bytes, error %v; want a time-out", n, err)
	}
	c.SetReadDeadline(time.Time{})
}

// eventually polls until check is true.
func eventually(t *testing.T, what string, check func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); !check(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("not within 10 s: ", what)
		}
	}
}

func TestWithoutFaultsAllPasses(t *testing.T) {
	each(t, echo, func(t *testing.T, f *Faults, connect func() net.Conn) {
		c := connect()
		send(t, c, "hello")
		receive(t, c, "hello")
		if f.Dials() != 1 || f.Open() != 1 {
			t.Errorf("%d dials, %d open, want 1 and 1", f.Dials(), f.Open())
		}
		c.Close()
		eventually(t, "no open connection", func() bool { return f.Open() == 0 })
	})
}

func TestCutEndsAllConnectionsAndSparesNewOnes(t *testing.T) {
	each(t, echo, func(t *testing.T, f *Faults, connect func() net.Conn) {
		a, b := connect(), connect()
		for _, c := range []net.Conn{a, b} {
			send(t, c, "x")
			receive(t, c, "x")
		}
		f.Cut()
		ends(t, a)
		ends(t, b)
		c := connect()
		send(t, c, "again")
		receive(t, c, "again")
		if f.Dials() != 3 {
			t.Errorf("%d dials, want 3", f.Dials())
		}
	})
}

func TestCutWakesBlockedReadWithReset(t *testing.T) {
	d := &Dialer{}
	c := dial(t, d.DialContext, listen(t, echo))
	result := make(chan error)
	go func() {
		_, err := c.Read(make([]byte, 1))
		result <- err
	}()
	d.Cut()
	if err := <-result; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("read: %v, want connection reset", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("write: %v, want connection reset", err)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after Close: %v, want net.ErrClosed", err)
	}
}

func TestCutAfterReadIsExactAndHappensOnce(t *testing.T) {
	each(t, echo, func(t *testing.T, f *Faults, connect func() net.Conn) {
		c := connect()
		send(t, c, "ab")
		receive(t, c, "ab")
		f.CutAfterRead(3)
		send(t, c, "cdefgh")
		receive(t, c, "cde")
		ends(t, c)
		c = connect()
		send(t, c, "cdefgh")
		receive(t, c, "cdefgh")
	})
}

func TestDisarmedFaultsDoNotHappen(t *testing.T) {
	each(t, echo, func(t *testing.T, f *Faults, connect func() net.Conn) {
		c := connect()
		f.CutAfterWrite(3)
		f.SilenceAfterRead(3)
		f.Disarm()
		send(t, c, "abcdefgh")
		receive(t, c, "abcdefgh")
	})
}

func TestCutAfterWriteIsExactAndHappensOnce(t *testing.T) {
	got := make(chan string, 2)
	server := func(c net.Conn) {
		all, _ := io.ReadAll(c)
		got <- string(all)
	}
	each(t, server, func(t *testing.T, f *Faults, connect func() net.Conn) {
		f.CutAfterWrite(5)
		c := connect()
		send(t, c, "abc")
		c.Write([]byte("defg")) // its error depends on who notices first
		if all := <-got; all != "abcde" {
			t.Errorf("server read %q, want abcde", all)
		}
		ends(t, c)
		c = connect()
		send(t, c, "whole")
		c.(interface{ CloseWrite() error }).CloseWrite()
		if all := <-got; all != "whole" {
			t.Errorf("server read %q, want whole", all)
		}
	})
}

func TestWriteThatIsCutTellsHowMuchWasWritten(t *testing.T) {
	d := &Dialer{}
	c := dial(t, d.DialContext, listen(t, echo))
	d.CutAfterWrite(4)
	n, err := c.Write([]byte("abcdef"))
	if n != 4 || !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("wrote %d, error %v; want 4 and connection reset", n, err)
	}
}

func TestSilenceLosesAnswersButNotRequests(t *testing.T) {
	got := make(chan string, 1)
	server := func(c net.Conn) {
		var all bytes.Buffer
		io.Copy(io.MultiWriter(c, &all), c)
		got <- all.String()
	}
	each(t, server, func(t *testing.T, f *Faults, connect func() net.Conn) {
		f.SilenceAfterRead(2)
		c := connect()
		send(t, c, "abcd")
		receive(t, c, "ab")
		staysSilent(t, c)
		send(t, c, "ef")
		staysSilent(t, c)
		c.(interface{ CloseWrite() error }).CloseWrite()
		if all := <-got; all != "abcdef" {
			t.Errorf("server read %q, want abcdef", all)
		}
		ends(t, c)
		c = connect()
		send(t, c, "new")
		receive(t, c, "new")
		c.Close()
		<-got
	})
}

func TestStallHoldsBothDirectionsAndLosesNothing(t *testing.T) {
	got := make(chan string)
	server := func(c net.Conn) {
		b := make([]byte, 1)
		for {
			if _, err := c.Read(b); err != nil {
				return
			}
			got <- string(b)
			c.Write(b)
		}
	}
	each(t, server, func(t *testing.T, f *Faults, connect func() net.Conn) {
		c := connect()
		send(t, c, "a")
		<-got
		receive(t, c, "a")
		f.Stall()
		written := make(chan error, 1)
		go func() {
			_, err := c.Write([]byte("b"))
			written <- err
		}()
		staysSilent(t, c)
		select {
		case b := <-got:
			t.Fatalf("the server got %q through a stalled connection", b)
		default:
		}
		f.Release()
		if b := <-got; b != "b" {
			t.Errorf("server read %q, want b", b)
		}
		receive(t, c, "b")
		if err := <-written; err != nil {
			t.Error(err)
		}
	})
}

func TestStallBeginsUnderABlockedRead(t *testing.T) {
	proceed := make(chan struct{})
	each(t, func(c net.Conn) {
		c.Write([]byte("1"))
		<-proceed
		c.Write([]byte("2"))
		<-proceed
	}, func(t *testing.T, f *Faults, connect func() net.Conn) {
		c := connect()
		receive(t, c, "1")
		result := make(chan error, 1)
		go func() {
			_, err := c.Read(make([]byte, 1))
			result <- err
		}()
		f.Stall()
		proceed <- struct{}{}
		select {
		case err := <-result:
			t.Fatalf("read returned during the stall: %v", err)
		case <-time.After(30 * time.Millisecond):
		}
		f.Release()
		if err := <-result; err != nil {
			t.Error(err)
		}
		proceed <- struct{}{}
	})
}

func TestDeadlinesWorkDuringAStall(t *testing.T) {
	d := &Dialer{}
	c := dial(t, d.DialContext, listen(t, echo))
	d.Stall()
	c.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := c.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read: %v, want deadline exceeded", err)
	}
	if _, err := c.Write([]byte("x")); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("write: %v, want deadline exceeded", err)
	}
	d.Release()
	c.SetDeadline(time.Time{})
	send(t, c, "y")
	receive(t, c, "y")
}

func TestCloseAndCutEndAStalledCall(t *testing.T) {
	for name, end := range map[string]func(*Dialer, net.Conn){
		"close": func(_ *Dialer, c net.Conn) { c.Close() },
		"cut":   func(d *Dialer, _ net.Conn) { d.Cut() },
	} {
		t.Run(name, func(t *testing.T) {
			d := &Dialer{}
			c := dial(t, d.DialContext, listen(t, echo))
			d.Stall()
			result := make(chan error)
			go func() {
				_, err := c.Write([]byte("x"))
				result <- err
			}()
			end(d, c)
			if err := <-result; err == nil {
				t.Error("a stalled write succeeded")
			}
		})
	}
}

func TestRefuse(t *testing.T) {
	address, d := listen(t, echo), &Dialer{}
	d.Refuse(true)
	if _, err := d.DialContext(t.Context(), "tcp", address); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dial: %v, want connection refused", err)
	}
	d.Refuse(false)
	c := dial(t, d.DialContext, address)
	send(t, c, "x")
	receive(t, c, "x")
	if d.Dials() != 2 {
		t.Errorf("%d dials, want 2", d.Dials())
	}

	p := proxy(t, address)
	p.Refuse(true)
	ends(t, dial(t, new(net.Dialer).DialContext, p.Address()))
}

// pipe connects a Dialer to the other end of a net.Pipe, which lives in the time of synctest.
func pipe(d *Dialer) (client, server net.Conn) {
	here, there := net.Pipe()
	d.Dial = func(context.Context, string, string) (net.Conn, error) { return here, nil }
	client, _ = d.DialContext(context.Background(), "tcp", "")
	return client, there
}

func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{}
		client, server := pipe(d)
		defer server.Close()
		defer client.Close()
		d.Delay(3*time.Second, 5*time.Second)
		begin := time.Now()
		go client.Write([]byte("q"))
		receive(t, server, "q")
		if took := time.Since(begin); took != 5*time.Second {
			t.Errorf("the request took %v, want 5s", took)
		}
		begin = time.Now()
		go server.Write([]byte("a"))
		receive(t, client, "a")
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("the answer took %v, want 3s", took)
		}
	})
}

func TestDelayedDataSurvivesADeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{}
		client, server := pipe(d)
		defer server.Close()
		defer client.Close()
		d.Delay(3*time.Second, 0)
		go server.Write([]byte("a"))
		begin := time.Now()
		for range 2 { // moving the deadline does not start the delay again
			client.SetReadDeadline(time.Now().Add(time.Second))
			if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Fatalf("read: %v, want deadline exceeded", err)
			}
		}
		client.SetReadDeadline(time.Time{})
		receive(t, client, "a")
		if took := time.Since(begin); took != 3*time.Second {
			t.Errorf("the answer took %v, want 3s", took)
		}
	})
}

func TestDeadlineMovedWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := &Dialer{}
		client, server := pipe(d)
		defer server.Close()
		defer client.Close()
		d.Stall()
		begin := time.Now()
		client.SetReadDeadline(begin.Add(time.Hour))
		go func() {
			time.Sleep(time.Second)
			client.SetReadDeadline(begin.Add(2 * time.Second))
		}()
		if _, err := client.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Fatalf("read: %v, want deadline exceeded", err)
		}
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("waited %v, want 2s", took)
		}
	})
}

// However a stream is written and read in pieces, a cut after n bytes lets exactly n pass.
func TestCutIsExactForAnyPieces(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		text := rapid.SliceOfN(rapid.Byte(), 1, 300).Draw(rt, "text")
		n := rapid.IntRange(1, len(text)).Draw(rt, "n")
		piece := rapid.IntRange(1, 50).Draw(rt, "piece")
		d := &Dialer{}
		client, server := pipe(d)
		defer server.Close()
		defer client.Close()
		d.CutAfterRead(int64(n))
		sent := make(chan struct{})
		go func() {
			defer close(sent)
			for rest := text; len(rest) > 0; rest = rest[min(piece, len(rest)):] {
				if _, err := server.Write(rest[:min(piece, len(rest))]); err != nil {
					return
				}
			}
		}()
		var got []byte
		b := make([]byte, rapid.IntRange(1, 50).Draw(rt, "buffer"))
		for {
			k, err := client.Read(b)
			got = append(got, b[:k]...)
			if err != nil {
				if !errors.Is(err, syscall.ECONNRESET) {
					rt.Fatalf("read: %v, want connection reset", err)
				}
				break
			}
		}
		<-sent
		if !bytes.Equal(got, text[:n]) {
			rt.Fatalf("read %d bytes %x, want %d: %x", len(got), got, n, text[:n])
		}
	})
}

func TestProxyToAnAbsentServerEnds(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	p := proxy(t, l.Addr().String())
	ends(t, dial(t, new(net.Dialer).DialContext, p.Address()))
}

func TestProxyClosesAConnectionThatItsClientHasLeft(t *testing.T) {
	asked, release := make(chan struct{}), make(chan struct{})
	p, err := NewProxy(listen(t, func(c net.Conn) {
		io.Copy(io.Discard, c)
		close(asked)
		<-release // the server does not end its side
	}))
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, new(net.Dialer).DialContext, p.Address())
	c.(*net.TCPConn).CloseWrite()
	<-asked
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	ends(t, c)
	close(release)
}
