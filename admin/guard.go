package admin

import (
	"crypto/sha256"
	"crypto/subtle"
	"crypto/tls"
	"fmt"
	"net/http"
	"strings"
)

const (
	// maxBody is the most that is read of a request's body, in bytes.
	maxBody = 64 << 10
	// maxAtOnce is how many requests are answered at the same time; further ones get 503, so that a flood takes a bounded
	// share of the relay's memory.
	maxAtOnce = 64
)

// guard stands before every page: headers, limits, and who may ask.
type guard struct {
	token func() (string, error)
	slots chan struct{} // one for each request under way
}

func newGuard(token func() (string, error)) *guard {
	return &guard{token: token, slots: make(chan struct{}, maxAtOnce)}
}

// around is what every request passes. Of the headers, the first lines keep a browser from guessing, caching, framing and
// loading anything from elsewhere. A request that another site makes a browser send, and that could change something, ends
// here.
func (g *guard) around(next http.Handler) http.Handler {
	next = http.NewCrossOriginProtection().Handler(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Cache-Control", "no-store")
		header.Set("Referrer-Policy", "no-referrer")
		header.Set("Cross-Origin-Resource-Policy", "same-origin")
		header.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; "+
			"form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		select {
		case g.slots <- struct{}{}:
			defer func() { <-g.slots }()
		default:
			http.Error(w, "too many requests at once", http.StatusServiceUnavailable)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// reads lets a request pass that has the token, or any where there is none.
func (g *guard) reads(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if allowed, _ := g.check(r); !allowed {
			refuse(w)
			return
		}
		next(w, r)
	}
}

// changes lets a request pass that has the token. Without one nobody may change anything, on loopback neither: every
// program and every user of the machine can reach that.
func (g *guard) changes(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch allowed, configured := g.check(r); {
		case !configured:
			http.Error(w, "set http.token to allow this", http.StatusForbidden)
		case !allowed:
			refuse(w)
		default:
			next(w, r)
		}
	}
}

func refuse(w http.ResponseWriter) {
	w.Header().Add("WWW-Authenticate", `Bearer realm="walrelay"`)
	w.Header().Add("WWW-Authenticate", `Basic realm="walrelay", charset="UTF-8"`) // for browsers, the token as password
	http.Error(w, "want the token of http.token: Authorization: Bearer ...", http.StatusUnauthorized)
}

// check tells whether the request may pass, and whether there is a token at all. A token that cannot be read is one that
// nobody has.
func (g *guard) check(r *http.Request) (allowed, configured bool) {
	if g.token == nil {
		return true, false
	}
	want, err := g.token()
	if err != nil || want == "" {
		return false, true
	}
	got, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		_, got, _ = r.BasicAuth()
	}
	a, b := sha256.Sum256([]byte(got)), sha256.Sum256([]byte(want)) // of equal length, so that the time tells nothing
	return subtle.ConstantTimeCompare(a[:], b[:]) == 1, true
}

// tlsConfig reads the certificate anew for each connection, so that a renewed one is used without a restart.
func (c Config) tlsConfig() (*tls.Config, error) {
	load := func() (*tls.Certificate, error) {
		certificate, err := tls.LoadX509KeyPair(c.CertFile, c.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("http.cert_file %q with http.key_file %q: %w", c.CertFile, c.KeyFile, err)
		}
		return &certificate, nil
	}
	if _, err := load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return load() },
	}, nil
}
