package oauth

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const secretText = "the-client's=secret&more"

func TestMechanism(t *testing.T) {
	m := Mechanism{Token: func(context.Context) (string, error) { return "aaa.bbb", nil }}
	dialogue, first, err := m.Start(t.Context())
	if m.Name() != "OAUTHBEARER" || err != nil || string(first) != "n,,\x01auth=Bearer aaa.bbb\x01\x01" {
		t.Fatalf("%s %q, %v", m.Name(), first, err)
	}
	if done, out, err := dialogue.Next(t.Context(), nil); !done || out != nil || err != nil {
		t.Errorf("accepted: %v %q %v", done, out, err)
	}

	// RFC 7628, section 3.2.3: a refusal is acknowledged with one byte, and only then fails.
	dialogue, _, _ = m.Start(t.Context())
	done, out, err := dialogue.Next(t.Context(), []byte(`{"status":"invalid_token","scope":"produce"}`))
	if done || string(out) != "\x01" || err != nil {
		t.Errorf("refused: %v %q %v", done, out, err)
	}
	done, _, err = dialogue.Next(t.Context(), nil)
	if !done || err == nil || err.Error() != `the broker refuses the token: "invalid_token", wanted scope "produce"` {
		t.Errorf("refused: %v %v", done, err)
	}

	for _, token := range []string{"", "a\x01auth=b", "a b", "ä", "a\n"} {
		m.Token = func(context.Context) (string, error) { return token, nil }
		if _, _, err := m.Start(t.Context()); err == nil {
			t.Errorf("token %q is sent", token)
		}
	}
	broken := errors.New("no token")
	m.Token = func(context.Context) (string, error) { return "", broken }
	if _, _, err := m.Start(t.Context()); !errors.Is(err, broken) {
		t.Errorf("%v", err)
	}
}

// server answers with a status and a body that may have %d for the number of the request.
func server(t *testing.T, status int, body string) (*Source, *int) {
	t.Helper()
	n := new(int)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		*n++
		if r.URL.Path == "/elsewhere" {
			t.Error("followed a redirect with the secret")
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		fmt.Fprint(w, strings.ReplaceAll(body, "%d", fmt.Sprint(*n)))
	}))
	t.Cleanup(s.Close)
	return &Source{URL: s.URL + "/token?tenant=" + "s3cret", ClientID: "relay", Secret: func() (string, error) { return secretText, nil }}, n
}

// A token is asked for once in four fifths of its life.
func TestTokenIsKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, n := &Source{token: "kept", until: time.Now().Add(time.Minute)}, 0
		s.Secret = func() (string, error) { n++; return "", errors.New("asked") }
		s.URL = "http://127.0.0.1:1/"
		time.Sleep(time.Minute - time.Nanosecond)
		if token, err := s.Token(t.Context()); token != "kept" || err != nil {
			t.Errorf("%q, %v", token, err)
		}
		time.Sleep(time.Nanosecond)
		if _, err := s.Token(t.Context()); err == nil || n != 1 {
			t.Errorf("an old token was used (%v)", err)
		}
	})
	s, n := server(t, 200, `{"access_token":"token %d","token_type":"bearer","expires_in":10}`)
	began := time.Now()
	for range 3 {
		if token, err := s.Token(t.Context()); token != "token 1" || err != nil {
			t.Fatalf("%q, %v", token, err)
		}
	}
	if life := s.until.Sub(began); *n != 1 || life < 7*time.Second || life > 9*time.Second {
		t.Errorf("%d requests, kept for %v", *n, life)
	}
	s, n = server(t, 200, `{"access_token":"token %d","token_type":"Bearer"}`)
	for i := range 2 {
		if token, err := s.Token(t.Context()); token != fmt.Sprintf("token %d", i+1) || err != nil {
			t.Errorf("%q, %v", token, err)
		}
	}
	if *n != 2 {
		t.Errorf("a token without a time was kept")
	}
}

// Whatever goes wrong has a name, and no secret in it.
func TestTroubles(t *testing.T) {
	for want, source := range map[string]func() *Source{
		`401 Unauthorized "invalid_client"`: func() *Source { s, _ := server(t, 401, `{"error":"invalid_client"}`); return s },
		"307 Temporary Redirect":            func() *Source { s, _ := server(t, 307, ``); return s },
		"its answer has no access_token":    func() *Source { s, _ := server(t, 200, `<html>`+secretText); return s },
		"of type \"mac\", want Bearer":      func() *Source { s, _ := server(t, 200, `{"access_token":"x","token_type":"mac"}`); return s },
		"connection refused":                func() *Source { s, _ := server(t, 200, ""); s.URL = "http://127.0.0.1:1/?s3cret"; return s },
		"its address is not one":            func() *Source { s, _ := server(t, 200, ""); s.URL = "http://a b/s3cret"; return s },
		"no secret file": func() *Source {
			s, _ := server(t, 200, "")
			s.Secret = func() (string, error) { return "", errors.New("no secret file") }
			return s
		},
		"no authority file": func() *Source {
			s, _ := server(t, 200, "")
			s.TLS = func() (*tls.Config, error) { return nil, errors.New("no authority file") }
			return s
		},
	} {
		_, err := source().Token(t.Context())
		if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret&") || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
