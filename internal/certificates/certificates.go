package certificates

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
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

// Authority signs certificates and keeps them as PEM files in a folder.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pem  []byte
}

// New makes an authority whose certificate is ca.pem in dir, which is made if it is absent.
func New(dir string) (*Authority, error) {
	a := &Authority{dir: dir, cert: template("walrelay test authority")}
	a.cert.IsCA, a.cert.BasicConstraintsValid, a.cert.KeyUsage = true, true, x509.KeyUsageCertSign
	if err := a.sign(); err != nil {
		return nil, fmt.Errorf("make certificate authority: %w", err)
	}
	return a, nil
}

func (a *Authority) sign() error {
	if err := os.MkdirAll(a.dir, 0o755); err != nil {
		return err
	}
	var err error
	if a.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, a.cert, a.cert, a.key.Public(), a.key)
	if err != nil {
		return err
	}
	a.pem = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	return os.WriteFile(a.File("ca.pem"), a.pem, 0o644)
}

// File is the path of one of the files: ca.pem, or what Server and Client write.
func (a *Authority) File(name string) string { return filepath.Join(a.dir, name) }

// Pool trusts this authority alone.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(a.pem)
	return pool
}

// Server writes a certificate for 127.0.0.1 and localhost: <name>.pem, <name>.key, and both in <name>-store.pem.
func (a *Authority) Server(name string) error {
	cert := template("localhost")
	cert.DNSNames, cert.IPAddresses = []string{"localhost"}, []net.IP{net.IPv4(127, 0, 0, 1)}
	return a.issue(name, cert)
}

// Client writes a certificate of that common name: <name>.pem, <name>.key, and both in <name>-store.pem.
func (a *Authority) Client(name, commonName string) error { return a.issue(name, template(commonName)) }

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
func (a *Authority) issue(name string, cert *x509.Certificate) error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, a.cert, key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("sign certificate of %s: %w", name, err)
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
		if err := os.WriteFile(a.File(file), content, 0o600); err != nil {
			return err
		}
	}
	return nil
}
