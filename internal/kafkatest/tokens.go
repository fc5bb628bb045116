package kafkatest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/walrelay/walrelay/internal/certificates"
)

// ClientID and ClientSecret are what a TokenServer gives tokens for.
const (
	ClientID     = "walrelay client"
	ClientSecret = "client-secret/ü+%"
)

// TokenServer gives signed tokens over HTTPS for the client credentials grant, and tells a cluster how to check them.
type TokenServer struct {
	// URL is the token endpoint; CAFile the authority of its certificate.
	URL, CAFile string
	key         *rsa.PrivateKey
	keys        string // file with the public key, as JWKS
	lifetime    time.Duration
	issued      atomic.Int64
}

// StartTokens starts one for a test. Its tokens live for lifetime.
func StartTokens(t testing.TB, lifetime time.Duration) *TokenServer {
	t.Helper()
	dir := t.TempDir()
	authority, err := certificates.New(dir)
	if err != nil {
		t.Fatal(err)
	}
	s := &TokenServer{CAFile: authority.File("ca.pem"), keys: filepath.Join(dir, "keys.json"), lifetime: lifetime}
	s.key, err = rsa.GenerateKey(rand.Reader, 2048)
	if err := errors.Join(err, authority.Server("server")); err != nil {
		t.Fatal(err)
	}
	public := map[string]any{"keys": []any{map[string]string{"kty": "RSA", "use": "sig", "alg": "RS256", "kid": "1",
		"n": encode(s.key.N.Bytes()), "e": encode(big.NewInt(int64(s.key.E)).Bytes())}}}
	content, err := json.Marshal(public)
	if err := errors.Join(err, os.WriteFile(s.keys, content, 0o644)); err != nil {
		t.Fatal(err)
	}
	certificate, err := tls.LoadX509KeyPair(authority.File("server.pem"), authority.File("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(s)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	server.StartTLS()
	t.Cleanup(server.Close)
	s.URL = server.URL + "/token"
	return s
}

// Issued is the number of tokens given.
func (s *TokenServer) Issued() int { return int(s.issued.Load()) }

// Accept adds to the options of a Secure cluster what lets these tokens in at the listener SASL_SSL.
func (s *TokenServer) Accept(o Options) Options {
	const listener, handler = "listener.name.sasl_ssl.", "org.apache.kafka.common.security.oauthbearer."
	keys := "file://" + s.keys
	o.Properties = maps.Clone(o.Properties)
	if o.Properties == nil {
		o.Properties = map[string]string{}
	}
	maps.Copy(o.Properties, map[string]string{
		listener + "sasl.enabled.mechanisms":                        "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
		listener + "oauthbearer.sasl.jaas.config":                   handler + "OAuthBearerLoginModule required;",
		listener + "oauthbearer.sasl.server.callback.handler.class": handler + "OAuthBearerValidatorCallbackHandler",
		"sasl.oauthbearer.jwks.endpoint.url":                        keys,
		"sasl.oauthbearer.expected.audience":                        "kafka",
		"sasl.oauthbearer.jwks.endpoint.retry.backoff.ms":           "100",
	})
	o.JVM = append(o.JVM, "-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls="+keys)
	return o
}

// ServeHTTP answers one request for a token.
func (s *TokenServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	user, password, _ := r.BasicAuth()
	id, err1 := url.QueryUnescape(user)
	secret, err2 := url.QueryUnescape(password)
	w.Header().Set("Content-Type", "application/json")
	switch {
	case err1 != nil || err2 != nil || id != ClientID || secret != ClientSecret:
		w.WriteHeader(http.StatusUnauthorized)
		fmt.Fprint(w, `{"error":"invalid_client"}`)
	case r.Method != http.MethodPost || r.URL.Path != "/token" || r.PostFormValue("grant_type") != "client_credentials" || r.PostFormValue("scope") != "produce":
		w.WriteHeader(http.StatusBadRequest)
		fmt.Fprint(w, `{"error":"invalid_request"}`)
	default:
		s.issued.Add(1)
		fmt.Fprintf(w, `{"access_token":%q,"token_type":"Bearer","expires_in":%d}`, s.Token("kafka"), int(s.lifetime.Seconds()))
	}
}

// Token is a signed token for an audience.
func (s *TokenServer) Token(audience string) string {
	now := time.Now()
	claims, err := json.Marshal(map[string]any{"sub": User, "aud": audience, "scope": "produce", "iat": now.Unix(), "exp": now.Add(s.lifetime).Unix()})
	if err != nil {
		panic(err) // strings and numbers
	}
	signed := encode([]byte(`{"alg":"RS256","kid":"1","typ":"JWT"}`)) + "." + encode(claims)
	digest := sha256.Sum256([]byte(signed))
	signature, err := rsa.SignPKCS1v15(rand.Reader, s.key, crypto.SHA256, digest[:])
	if err != nil {
		panic(err) // the key is long enough
	}
	return signed + "." + encode(signature)
}

func encode(b []byte) string { return base64.RawURLEncoding.EncodeToString(b) }
