package admin

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net/http"
)

// Ask fetches a page of a relay that has this configuration: with its token, and trusting its very certificate beside those
// that the system trusts. The caller closes the body.
func (c Config) Ask(ctx context.Context, url string) (*http.Response, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return nil, err
	}
	if c.Token != nil {
		token, err := c.Token()
		if err != nil {
			return nil, err
		}
		request.Header.Set("Authorization", "Bearer "+token)
	}
	transport := &http.Transport{DisableKeepAlives: true} // one question
	if c.CertFile != "" {
		if transport.TLSClientConfig, err = c.trusting(); err != nil {
			return nil, err
		}
	}
	client := &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return client.Do(request)
}

// trusting accepts the certificate of our own file whatever the name, since a relay is often asked at 127.0.0.1, and others
// as usual.
func (c Config) trusting() (*tls.Config, error) {
	own, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
	if err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does it
		VerifyConnection: func(s tls.ConnectionState) error {
			leaf := s.PeerCertificates[0]
			if leaf.Equal(own.Leaf) {
				return nil
			}
			options := x509.VerifyOptions{DNSName: s.ServerName, Intermediates: x509.NewCertPool()}
			for _, certificate := range s.PeerCertificates[1:] {
				options.Intermediates.AddCert(certificate)
			}
			_, err := leaf.Verify(options)
			return err
		},
	}, nil
}
