package oauth

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

// maxAnswer is the most that a token server may answer, in bytes.
const maxAnswer = 1 << 20

// Source gets tokens for a client id and its secret.
type Source struct {
	// URL is the token endpoint.
	URL string
	// ClientID and Secret are the client's; Secret is asked for each new token.
	ClientID string
	Secret   func() (string, error)
	// Scope is asked for; empty: none.
	Scope string
	// TLS is asked for each new token. Nil: the system's authorities.
	TLS func() (*tls.Config, error)

	mu    sync.Mutex
	token string
	until time.Time // when to ask for the next one
}

// Token is a token that is good for some time yet.
func (s *Source) Token(ctx context.Context) (string, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.token != "" && time.Now().Before(s.until) {
		return s.token, nil
	}
	asked := time.Now()
	token, lifetime, err := s.ask(ctx)
	if err != nil {
		return "", fmt.Errorf("token server %s: %w", s.place(), err)
	}
	s.token, s.until = token, asked.Add(lifetime*4/5)
	return token, nil
}

// place is the address without what could be a secret in it.
func (s *Source) place() string {
	u, err := url.Parse(s.URL)
	if err != nil {
		return "of kafka.sasl.token_url"
	}
	return u.Host
}

func (s *Source) ask(ctx context.Context) (token string, lifetime time.Duration, err error) {
	form := url.Values{"grant_type": {"client_credentials"}}
	if s.Scope != "" {
		form.Set("scope", s.Scope)
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(form.Encode()))
	if err != nil {
		return "", 0, errors.New("its address is not one")
	}
	secret, err := s.Secret()
	if err != nil {
		return "", 0, err
	}
	request.SetBasicAuth(url.QueryEscape(s.ClientID), url.QueryEscape(secret)) // RFC 6749, section 2.3.1
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	request.Header.Set("Accept", "application/json")
	client, err := s.client()
	if err != nil {
		return "", 0, err
	}
	answer, err := client.Do(request)
	if err != nil {
		var failed *url.Error
		if errors.As(err, &failed) {
			err = failed.Err // without the address
		}
		return "", 0, err
	}
	defer answer.Body.Close()
	return read(answer)
}

// client makes one connection for one question, and follows no redirect: the secret is for one server.
func (s *Source) client() (*http.Client, error) {
	transport := &http.Transport{DisableKeepAlives: true, Proxy: http.ProxyFromEnvironment, ForceAttemptHTTP2: true}
	if s.TLS != nil {
		config, err := s.TLS()
		if err != nil {
			return nil, err
		}
		transport.TLSClientConfig = config
	}
	return &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}, nil
}

// read takes the token out of an answer, or what the server says is wrong.
func read(answer *http.Response) (token string, lifetime time.Duration, err error) {
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return "", 0, err
	}
	var said struct {
		AccessToken string `json:"access_token"`
		TokenType   string `json:"token_type"`
		ExpiresIn   int64  `json:"expires_in"`
		Error       string `json:"error"`
	}
	unreadable := json.Unmarshal(body, &said)
	switch {
	case answer.StatusCode != http.StatusOK:
		return "", 0, fmt.Errorf("%s %.60q", answer.Status, said.Error)
	case unreadable != nil || said.AccessToken == "":
		return "", 0, errors.New("its answer has no access_token")
	case !strings.EqualFold(said.TokenType, "Bearer"):
		return "", 0, fmt.Errorf("its token is of type %.60q, want Bearer", said.TokenType)
	}
	// Without a word about it the token is used once.
	return said.AccessToken, time.Duration(min(max(said.ExpiresIn, 0), 86400)) * time.Second, nil
}
