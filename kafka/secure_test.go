package kafka

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"math/big"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// mechanisms are the ways to authenticate with a password.
func mechanisms(password string) map[string]sasl.Mechanism {
	found := map[string]sasl.Mechanism{"PLAIN": plain.Mechanism{Username: "relay", Password: password}}
	for _, algorithm := range []scram.Algorithm{scram.SHA256, scram.SHA512} {
		mechanism, err := scram.Mechanism(algorithm, "relay", password)
		if err != nil {
			panic(err)
		}
		found[algorithm.Name()] = mechanism
	}
	return found
}

func withPassword(name string) []kfake.Opt {
	return append(orders(), kfake.EnableSASL(), kfake.Superuser(name, "relay", "secret"), kfake.Superuser("PLAIN", "reader", "reader"))
}

func TestSASL(t *testing.T) {
	for name, mechanism := range mechanisms("secret") {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 2, withPassword(name), func(cfg *Config) { cfg.SASL = mechanism }, func(h *harness) {
				h.send("orders", "a", 0, 100)
				h.flush()
				if n := h.cluster.PartitionInfo("orders", 0).HighWatermark; n != 100 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

func TestSASLWrongPassword(t *testing.T) {
	for name, mechanism := range mechanisms("wrong") {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 1, withPassword(name), func(cfg *Config) { cfg.SASL = mechanism }, func(h *harness) {
				time.Sleep(time.Second)
				trouble, _ := h.p.Trouble()
				if trouble.Kind != KindUnreachable || !strings.Contains(trouble.Err.Error(), "sasl") || strings.Contains(trouble.Err.Error(), "wrong") {
					t.Errorf("trouble %+v", trouble)
				}
			})
		})
	}
}

// The last row of the fault matrix: a broker that swallows the handshake holds nobody up for longer than the deadline.
func TestSASLHandshakeSwallowed(t *testing.T) {
	for _, key := range []kmsg.Key{kmsg.SASLHandshake, kmsg.SASLAuthenticate, kmsg.ApiVersions} {
		t.Run(key.Name(), func(t *testing.T) {
			configure := func(cfg *Config) { cfg.SASL = mechanisms("secret")["PLAIN"] }
			inBubble(t, 1, withPassword("PLAIN"), configure, func(h *harness) {
				h.send("orders", "a", 0, 10)
				h.flush()
				for range 2 { // one for metadata, one for a lane
					h.cluster.ControlKey(key.Int16(), func(kmsg.Request) (kmsg.Response, error, bool) { return nil, nil, true })
				}
				h.network.cut(func(string) bool { return true })
				began := time.Now()
				h.send("orders", "a", 10, 20)
				h.flush()
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("took %v", took)
				}
				if n := h.cluster.PartitionInfo("orders", 0).HighWatermark; n != 20 {
					t.Errorf("%d records", n)
				}
			})
		})
	}
}

// A broker that ends SASL sessions (KIP-368) gets a new connection before it does.
func TestSASLSessionEnds(t *testing.T) {
	opts := append(withPassword("PLAIN"), kfake.BrokerConfigs(map[string]string{"connections.max.reauth.ms": "60000"}))
	configure := func(cfg *Config) { cfg.SASL = mechanisms("secret")["PLAIN"] }
	inBubble(t, 1, opts, configure, func(h *harness) {
		for i := range 20 {
			h.send("orders", "a", i, i+1)
			time.Sleep(30 * time.Second)
		}
		h.flush()
		s := h.p.Stats()
		if s.Retries != (Retries{}) || s.Connections < 8 {
			t.Errorf("%+v", s)
		}
	})
}

// always is a TLS configuration that does not change.
func always(config *tls.Config) func() (*tls.Config, error) {
	if config == nil {
		return nil
	}
	return func() (*tls.Config, error) { return config, nil }
}

// selfSigned is a certificate for 127.0.0.1 and localhost, and the pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "localhost"},
		NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), DNSNames: []string{"localhost"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestTLS(t *testing.T) {
	certificate, pool := selfSigned(t)
	server := &tls.Config{Certificates: []tls.Certificate{certificate}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool}
	client := &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}
	onTCP(t, 1, append(withPassword("SCRAM-SHA-512"), kfake.TLS(server)), func(cfg *Config) {
		cfg.TLS, cfg.SASL = always(client), mechanisms("secret")["SCRAM-SHA-512"]
		cfg.BatchBytes = 1 << 20
	}, func(h *harness) {
		h.pad = 100_000 // records and requests of many TLS records
		h.send("orders", "a", 0, 50)
		h.flush()
		if n := h.cluster.PartitionInfo("orders", 0).HighWatermark; n != 50 {
			t.Errorf("%d records", n)
		}
	})
}

func TestTLSTroubles(t *testing.T) {
	certificate, pool := selfSigned(t)
	cases := []struct {
		name   string
		server *tls.Config
		client *tls.Config
		want   string
	}{
		{"unknown authority", &tls.Config{Certificates: []tls.Certificate{certificate}}, &tls.Config{RootCAs: x509.NewCertPool()}, "x509"},
		{"TLS against plain", nil, &tls.Config{RootCAs: pool}, "127.0.0.1"},
		{"plain against TLS", &tls.Config{Certificates: []tls.Certificate{certificate}}, nil, "want TLS"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			opts := orders()
			if c.server != nil {
				opts = append(opts, kfake.TLS(c.server))
			}
			onTCP(t, 1, opts, func(cfg *Config) { cfg.TLS, cfg.DialTimeout = always(c.client), time.Second }, func(h *harness) {
				h.until("trouble", func() bool { trouble, _ := h.p.Trouble(); return trouble.Kind == KindUnreachable })
				if trouble, _ := h.p.Trouble(); !strings.Contains(trouble.Err.Error(), c.want) {
					t.Errorf("trouble %+v, want %q in it", trouble, c.want)
				}
			})
		})
	}
}
