package kafkatest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// certificates are a certificate authority, the certificate of all nodes (for 127.0.0.1 and localhost) and one for a
// client, all made anew for each cluster and kept as PEM files in its folder.
type certificates struct {
	dir    string
	pool   *x509.CertPool
	client tls.Certificate
}

func (c *certificates) file(name string) string { return filepath.Join(c.dir, name) }

func newCertificates(cluster string) (*certificates, error) {
	c := &certificates{dir: filepath.Join(cluster, "tls"), pool: x509.NewCertPool()}
	if err := c.make(); err != nil {
		return nil, fmt.Errorf("make certificates: %w", err)
	}
	return c, nil
}

func (c *certificates) make() error {
	if err := os.MkdirAll(c.dir, 0o755); err != nil {
		return err
	}
	authority := template("walrelay test authority")
	authority.IsCA, authority.BasicConstraintsValid, authority.KeyUsage = true, true, x509.KeyUsageCertSign
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, key.Public(), key)
	if err != nil {
		return err
	}
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	c.pool.AppendCertsFromPEM(ca)
	if err := os.WriteFile(c.file("ca.pem"), ca, 0o644); err != nil {
		return err
	}
	broker := template("localhost")
	broker.DNSNames, broker.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	if err := c.issue("broker", broker, authority, key); err != nil {
		return err
	}
	if err := c.issue("client", template(User), authority, key); err != nil {
		return err
	}
	c.client, err = tls.LoadX509KeyPair(c.file("client.pem"), c.file("client.key"))
	return err
}

func template(name string) *x509.Certificate {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		panic(err) // crypto/rand.Reader never fails
	}
	return &x509.Certificate{
		SerialNumber: serial,
		Subject:      pkix.Name{CommonName: name},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(48 * time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
}

// issue writes <name>.pem and <name>.key, and both in one file <name>-store.pem, Kafka's form of a PEM key store: the key
// (PKCS#8, not encrypted) before the chain.
func (c *certificates) issue(name string, cert, authority *x509.Certificate, signer *ecdsa.PrivateKey) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, authority, key.Public(), signer)
	if err != nil {
		return err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return err
	}
	certPEM := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	keyPEM := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	for file, content := range map[string][]byte{
		name + ".pem": certPEM, name + ".key": keyPEM, name + "-store.pem": append(keyPEM, certPEM...),
	} {
		if err := os.WriteFile(c.file(file), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
