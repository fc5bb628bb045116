package admin

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
)

// Control are the functions behind the requests that change something. A nil one is answered with 404.
type Control struct {
	// Ask takes a request of a person: kind is pause, resume or skip, event the identity of the event to skip. It returns
	// what became of it.
	Ask func(ctx context.Context, kind, event, reason string) (outcome string, err error)
	// Level sets the log level: debug, info, warn or error.
	Level func(level string) error
}

// order is the body of a request that changes something.
type order struct {
	Event  string `json:"event"`
	Reason string `json:"reason"`
	Level  string `json:"level"`
}

func (c Control) routes(mux *http.ServeMux, g *guard) {
	if c.Ask != nil {
		for _, kind := range []string{"pause", "resume", "skip"} {
			mux.HandleFunc("POST /"+kind, g.changes(obey(func(ctx context.Context, o order) (string, error) {
				return c.Ask(ctx, kind, o.Event, o.Reason)
			})))
		}
	}
	if c.Level != nil {
		mux.HandleFunc("PUT /log/level", g.changes(obey(func(_ context.Context, o order) (string, error) {
			return "level is " + o.Level, c.Level(o.Level)
		})))
	}
}

// obey reads an order and says what became of it.
func obey(do func(context.Context, order) (string, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var o order
		decoder := json.NewDecoder(r.Body)
		decoder.DisallowUnknownFields()
		if err := decoder.Decode(&o); err != nil {
			http.Error(w, `want JSON such as {"reason": "..."}: `+err.Error(), http.StatusBadRequest)
			return
		}
		outcome, err := do(r.Context(), o)
		if err != nil {
			http.Error(w, err.Error(), http.StatusUnprocessableEntity)
			return
		}
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = fmt.Fprintln(w, outcome) // the client went away
	}
}
