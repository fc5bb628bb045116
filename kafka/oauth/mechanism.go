package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/segmentio/kafka-go/sasl"
)

// Mechanism logs in with a token.
type Mechanism struct {
	// Token gives the token of this moment. It must not outlast ctx.
	Token func(ctx context.Context) (string, error)
}

// Name is the mechanism's name in the protocol.
func (Mechanism) Name() string { return "OAUTHBEARER" }

// Start makes the first and only message.
func (m Mechanism) Start(ctx context.Context) (sasl.StateMachine, []byte, error) {
	token, err := m.Token(ctx)
	if err != nil {
		return nil, nil, err
	}
	if token == "" || strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, nil, errors.New("the token is empty or has characters that no token may have")
	}
	return &session{}, []byte("n,,\x01auth=Bearer " + token + "\x01\x01"), nil
}

// session waits for the answer, which is empty, or says what is wrong with the token.
type session struct{ refused error }

// Next takes the broker's answer. A refusal must be acknowledged before the broker ends the login, so it is kept for then.
func (s *session) Next(_ context.Context, challenge []byte) (done bool, response []byte, err error) {
	if s.refused != nil {
		return true, nil, s.refused
	}
	if len(challenge) == 0 {
		return true, nil, nil
	}
	var answer struct{ Status, Scope string }
	s.refused = errors.New("the broker refuses the token")
	if json.Unmarshal(challenge, &answer) == nil && answer.Status != "" {
		s.refused = fmt.Errorf("the broker refuses the token: %.60q, wanted scope %.60q", answer.Status, answer.Scope)
	}
	return false, []byte{1}, nil
}
