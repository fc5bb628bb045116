package admin

import (
	"bufio"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

const token = "a token of the test"

// quiet are pages with nothing to say; the relay is not ready.
func quiet() Probes {
	return Probes{
		Live:    func() bool { return true },
		Ready:   func() (bool, string) { return false, "table public.secrets is missing" },
		Status:  func() any { return map[string]string{"slot": "s"} },
		Metrics: prometheus.NewRegistry(),
	}
}

// ask sends one request with these headers, as "Name: value".
func ask(t *testing.T, client *http.Client, method, url string, headers ...string) (*http.Response, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Close = true
	for _, header := range headers {
		name, value, _ := strings.Cut(header, ": ")
		request.Header.Set(name, value)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response, string(body)
}

func TestToken(t *testing.T) {
	current, broken := token, error(nil)
	var mu sync.Mutex
	url := serve(t, Config{Token: func() (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return current, broken
	}}, quiet())
	basic := func(password string) string {
		request := httptest.NewRequest(http.MethodGet, "/", nil)
		request.SetBasicAuth("anybody", password)
		return "Authorization: " + request.Header.Get("Authorization")
	}
	for _, c := range []struct {
		path, header string
		status       int
		body         string
	}{
		{"/healthz", "X: y", 200, "ok"},
		{"/readyz", "X: y", 503, "not ready\n"},
		{"/readyz", "Authorization: Bearer " + token, 503, "table public.secrets is missing\n"},
		{"/status", "X: y", 401, "want the token"},
		{"/metrics", "X: y", 401, "want the token"},
		{"/status", "Authorization: Bearer ", 401, "want the token"},
		{"/status", "Authorization: Bearer " + token + "x", 401, "want the token"},
		{"/status", "Authorization: bearer", 401, "want the token"},
		{"/status", basic("wrong"), 401, "want the token"},
		{"/status", "Authorization: Bearer " + token, 200, `"slot"`},
		{"/status", basic(token), 200, `"slot"`},
		{"/metrics", "Authorization: Bearer " + token, 200, ""},
	} {
		response, body := ask(t, http.DefaultClient, http.MethodGet, url+c.path, c.header)
		if response.StatusCode != c.status || !strings.Contains(body, c.body) || strings.Contains(body, token) {
			t.Errorf("%s with %q: %d %q", c.path, c.header, response.StatusCode, body)
		}
	}
	same := Config{Token: func() (string, error) { return token, nil }}
	if response, err := same.Ask(t.Context(), url+"/status"); err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusOK {
		t.Errorf("asked with the same configuration: %v", err)
	}
	mu.Lock()
	current = "another token"
	mu.Unlock()
	if response, _ := ask(t, http.DefaultClient, http.MethodGet, url+"/status", "Authorization: Bearer "+token); response.StatusCode != 401 {
		t.Errorf("the token of before is good yet: %d", response.StatusCode)
	}
	for _, unusable := range []struct {
		text string
		err  error
	}{{"", nil}, {"another token", errors.New("cannot be read")}} {
		mu.Lock()
		current, broken = unusable.text, unusable.err
		mu.Unlock()
		if response, _ := ask(t, http.DefaultClient, http.MethodGet, url+"/status", "Authorization: Bearer "+unusable.text); response.StatusCode != 401 {
			t.Errorf("with an unusable token (%v) %d", unusable.err, response.StatusCode)
		}
	}
}

// What changes something needs a token that is configured and given, and does not come from another site.
func TestChanges(t *testing.T) {
	for name, c := range map[string]struct {
		token   func() (string, error)
		headers []string
		status  int
	}{
		"no token configured": {nil, nil, 403},
		"no token given":      {func() (string, error) { return token, nil }, nil, 401},
		"token":               {func() (string, error) { return token, nil }, []string{"Authorization: Bearer " + token}, 200},
		"from another site": {func() (string, error) { return token, nil },
			[]string{"Authorization: Bearer " + token, "Sec-Fetch-Site: cross-site", "Origin: https://evil.example"}, 403},
	} {
		g := newGuard(c.token)
		changed := 0
		server := httptest.NewServer(g.around(g.changes(func(http.ResponseWriter, *http.Request) { changed++ })))
		response, _ := ask(t, server.Client(), http.MethodPost, server.URL, c.headers...)
		server.Close()
		if response.StatusCode != c.status || (changed == 1) != (c.status == 200) {
			t.Errorf("%s: %d, changed %d times", name, response.StatusCode, changed)
		}
	}
}

func TestHeaders(t *testing.T) {
	url := serve(t, Config{}, quiet())
	for _, path := range []string{"/healthz", "/readyz", "/status", "/metrics", "/nothing"} {
		response, _ := ask(t, http.DefaultClient, http.MethodGet, url+path)
		for name, want := range map[string]string{"X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin", "Content-Security-Policy": "frame-ancestors 'none'"} {
			if got := response.Header.Get(name); !strings.Contains(got, want) {
				t.Errorf("%s: %s is %q", path, name, got)
			}
		}
		if response.Header.Get("Access-Control-Allow-Origin") != "" || response.Header.Get("Server") != "" {
			t.Errorf("%s: %v", path, response.Header)
		}
	}
}

func TestLimits(t *testing.T) {
	// More requests at once than are allowed: the rest is told so at once.
	g := newGuard(nil)
	entered, leave := make(chan struct{}), make(chan struct{})
	server := httptest.NewServer(g.around(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodPost {
			if _, err := io.Copy(io.Discard, r.Body); err == nil {
				t.Error("a body above the limit was read to its end")
			}
			return
		}
		entered <- struct{}{}
		<-leave
	})))
	defer server.Close()
	var waiting sync.WaitGroup
	for range maxAtOnce {
		waiting.Go(func() {
			if response, err := http.Get(server.URL); err == nil {
				_ = response.Body.Close()
			}
		})
		<-entered
	}
	if response, _ := ask(t, http.DefaultClient, http.MethodGet, server.URL); response.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("request %d at once: %d", maxAtOnce+1, response.StatusCode)
	}
	close(leave)
	waiting.Wait()
	if response, err := http.Post(server.URL, "text/plain", strings.NewReader(strings.Repeat("x", maxBody+1))); err == nil {
		_ = response.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()

	// A header without end is cut off.
	url := serve(t, Config{}, quiet())
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if response, _ := ask(t, client, http.MethodGet, url+"/healthz", "X: "+strings.Repeat("x", 32<<10)); response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("header of 32 KiB: %d", response.StatusCode)
	}
}

// pair writes a certificate for 127.0.0.1 and its key.
func pair(t *testing.T, serial int64, certFile, keyFile string) *x509.CertPool {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(serial), NotAfter: time.Now().Add(time.Hour), DNSNames: []string{"localhost"}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	for file, content := range map[string][]byte{certFile: certificate, keyFile: pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(certificate)
	return pool
}

// HTTPS, with a certificate that is renewed while the server runs; no old TLS, and no plain HTTP beside it.
func TestTLS(t *testing.T) {
	certFile, keyFile := filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	cfg := Config{CertFile: certFile, KeyFile: keyFile}
	if _, err := Listen(Config{Listen: "127.0.0.1:0", CertFile: certFile, KeyFile: keyFile}); err == nil || !strings.Contains(err.Error(), "http.cert_file") {
		t.Errorf("without the files: %v", err)
	}
	first := pair(t, 1, certFile, keyFile)
	url := serve(t, cfg, quiet())
	fetch := func(pool *x509.CertPool, highest uint16) (int64, error) {
		client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true,
			TLSClientConfig: &tls.Config{RootCAs: pool, ServerName: "localhost", MaxVersion: highest}}}
		response, err := client.Get(url + "/healthz")
		if err != nil {
			return 0, err
		}
		defer response.Body.Close()
		return response.TLS.PeerCertificates[0].SerialNumber.Int64(), nil
	}
	if serial, err := fetch(first, 0); err != nil || serial != 1 {
		t.Errorf("certificate %d, %v", serial, err)
	}
	second := pair(t, 2, certFile, keyFile)
	if serial, err := fetch(second, 0); err != nil || serial != 2 {
		t.Errorf("after the renewal certificate %d, %v", serial, err)
	}
	if _, err := fetch(second, tls.VersionTLS11); err == nil {
		t.Error("TLS 1.1 is accepted")
	}
	if response, err := cfg.Ask(t.Context(), url+"/healthz"); err != nil || response.Body.Close() != nil || response.StatusCode != http.StatusOK {
		t.Errorf("asked with the same configuration, whose certificate is not for 127.0.0.1: %v", err)
	}
	other := Config{CertFile: filepath.Join(t.TempDir(), "cert.pem"), KeyFile: filepath.Join(t.TempDir(), "key.pem")}
	pair(t, 3, other.CertFile, other.KeyFile)
	if _, err := other.Ask(t.Context(), url+"/healthz"); err == nil || !strings.Contains(err.Error(), "x509") {
		t.Errorf("asked with another certificate: %v", err)
	}
	response, body := ask(t, http.DefaultClient, http.MethodGet, "http"+strings.TrimPrefix(url, "https")+"/healthz")
	if response.StatusCode != http.StatusBadRequest {
		t.Errorf("plain HTTP: %d %s", response.StatusCode, body)
	}
}

// Bytes that are no request get an answer or the end of the connection, and the next request is served.
func FuzzRequest(f *testing.F) {
	for _, seed := range []string{
		"GET /status HTTP/1.1\r\nHost: x\r\n\r\n", "GET /status HTTP/1.1\r\nHost: x\r\nAuthorization: Basic !!!\r\n\r\n",
		"POST /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nffffffffffffffff\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
		"GET /%2e%2e/%2e%2e/etc/passwd HTTP/1.1\r\nHost: x\r\n\r\n", "GET //metrics?x=%zz HTTP/1.1\r\nHost: x\r\n\r\n", "\x16\x03\x01\x00",
	} {
		f.Add([]byte(seed))
	}
	g := handler(Config{Token: func() (string, error) { return token, nil }}, quiet())
	f.Fuzz(func(t *testing.T, raw []byte) {
		request, err := http.ReadRequest(bufio.NewReader(strings.NewReader(string(raw))))
		if err != nil {
			return
		}
		recorder := httptest.NewRecorder()
		g.ServeHTTP(recorder, request)
		if recorder.Code == http.StatusOK && request.URL.Path != "/healthz" && !strings.Contains(string(raw), token) {
			t.Errorf("%q: %d without the token: %s", raw, recorder.Code, recorder.Body)
		}
		if strings.Contains(recorder.Body.String(), "public.secrets") {
			t.Errorf("%q: %s", raw, recorder.Body)
		}
	})
}
