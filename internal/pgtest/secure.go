package pgtest

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/walrelay/walrelay/internal/certificates"
)

// CertifiedUser is the role of a Secure server that logs in with a client certificate.
const CertifiedUser = "certified"

const secureRules = `host      all  postgres            all  trust
hostssl   all  ` + CertifiedUser + `  all  cert
hostssl   all  all                 all  scram-sha-256
hostnossl all  all                 all  reject
`

// secure writes certificates and rules below the data folder and sets what makes the server use them.
func (s *Server) secure() error {
	dir := filepath.Join(s.dir, "tls")
	var err error
	if s.tls, err = certificates.New(dir); err != nil {
		return err
	}
	rules := filepath.Join(dir, "pg_hba.conf")
	if err := errors.Join(s.tls.Server("server"), os.WriteFile(rules, []byte(secureRules), 0o600)); err != nil {
		return err
	}
	for name, path := range map[string]string{"ssl_cert_file": s.tls.File("server.pem"), "ssl_key_file": s.tls.File("server.key"),
		"ssl_ca_file": s.tls.File("ca.pem"), "hba_file": rules} {
		if err := s.account.own(path); err != nil {
			return err
		}
		s.settings[name] = path
	}
	s.settings["ssl"] = "on"
	return s.account.own(dir)
}

// Authority signs the certificates of a Secure server; nil for others. The server trusts what it signs.
func (s *Server) Authority() *certificates.Authority { return s.tls }
