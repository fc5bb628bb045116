package kafkatest

import (
	"context"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"hash"
	"path/filepath"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/walrelay/walrelay/internal/certificates"
)

// User and Password log in to the SASL listeners of a Secure cluster with PLAIN, SCRAM-SHA-256 and SCRAM-SHA-512.
const (
	User     = "relay"
	Password = "relay-secret"
)

var secureListeners = []string{"SSL", "SASL_PLAINTEXT", "SASL_SSL"}

// newCertificates makes those of all nodes and one for a client.
func newCertificates(cluster string) (*certificates.Authority, error) {
	a, err := certificates.New(filepath.Join(cluster, "tls"))
	if err != nil {
		return nil, err
	}
	return a, errors.Join(a.Server("broker"), a.Client("client", User))
}

// secureProperties are those of a Secure node. A client certificate is asked for, not demanded.
func secureProperties(c *certificates.Authority) map[string]string {
	p := map[string]string{
		"sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
		"ssl.keystore.type":       "PEM",
		"ssl.keystore.location":   c.File("broker-store.pem"),
		"ssl.truststore.type":     "PEM",
		"ssl.truststore.location": c.File("ca.pem"),
		"ssl.client.auth":         "requested",
	}
	const module = "org.apache.kafka.common.security."
	for _, listener := range []string{"sasl_plaintext", "sasl_ssl"} {
		prefix := "listener.name." + listener
		p[prefix+".plain.sasl.jaas.config"] = fmt.Sprintf("%splain.PlainLoginModule required user_%s=\"%s\";", module, User, Password)
		for _, mechanism := range []string{"scram-sha-256", "scram-sha-512"} {
			p[prefix+"."+mechanism+".sasl.jaas.config"] = module + "scram.ScramLoginModule required;"
		}
	}
	return p
}

// SetPassword makes password the one of User for SCRAM, in the place of Password. The cluster takes one mechanism of a user
// in a request. PLAIN's password is in its configuration.
func (c *Cluster) SetPassword(ctx context.Context, password string) error {
	for mechanism, h := range map[int8]func() hash.Hash{1: sha256.New, 2: sha512.New} {
		if err := c.setPassword(ctx, password, mechanism, h); err != nil {
			return fmt.Errorf("set SCRAM password: %w", err)
		}
	}
	return nil
}

func (c *Cluster) setPassword(ctx context.Context, password string, mechanism int8, h func() hash.Hash) error {
	const iterations = 4096 // the least that Kafka takes
	salt := []byte(rand.Text())
	salted, err := pbkdf2.Key(h, password, salt, iterations, h().Size())
	if err != nil {
		return err
	}
	u := kmsg.NewAlterUserSCRAMCredentialsRequestUpsertion()
	u.Name, u.Mechanism, u.Iterations, u.Salt, u.SaltedPassword = User, mechanism, iterations, salt, salted
	req := kmsg.NewPtrAlterUserSCRAMCredentialsRequest()
	req.Upsertions = append(req.Upsertions, u)
	reply, err := request(ctx, c.answering(), req)
	if err != nil {
		return err
	}
	return kerr.ErrorForCode(reply.Results[0].ErrorCode)
}

// CA is the authority that a client of the SSL and SASL_SSL listeners must trust; nil unless the cluster is Secure.
func (c *Cluster) CA() *x509.CertPool {
	if c.tls == nil {
		return nil
	}
	return c.tls.Pool()
}

// ClientCertificate is one that the SSL listeners accept; empty unless the cluster is Secure.
func (c *Cluster) ClientCertificate() tls.Certificate {
	if c.tls == nil {
		return tls.Certificate{}
	}
	certificate, err := tls.LoadX509KeyPair(c.tls.File("client.pem"), c.tls.File("client.key"))
	if err != nil {
		panic(err) // we have written them
	}
	return certificate
}

// CertificateFiles are the PEM files of the authority and of the client's certificate and key, for programs that are
// configured with paths; empty unless the cluster is Secure.
func (c *Cluster) CertificateFiles() (ca, cert, key string) {
	if c.tls == nil {
		return "", "", ""
	}
	return c.tls.File("ca.pem"), c.tls.File("client.pem"), c.tls.File("client.key")
}
