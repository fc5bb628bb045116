package relay

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/walrelay/walrelay/audit"
	"github.com/walrelay/walrelay/fault"
	"github.com/walrelay/walrelay/replication"
	"github.com/walrelay/walrelay/router"
)

// selection is which dead letters a person has chosen.
type selection struct {
	ReplayOptions
	named       audit.Named
	typeHeaders []string // that have the event type
}

func newSelection(cfg Config, survey *replication.Survey, o ReplayOptions) (*selection, error) {
	s := &selection{ReplayOptions: o, named: audit.NewNamed(o.IDs)}
	for i, t := range survey.Tables {
		route := cfg.Tables[i].Route
		s.addTypeHeader(route, route.ColumnsOf(t.Relation).Type)
	}
	if cfg.Messages != nil {
		s.addTypeHeader(cfg.Messages.Route, cmp.Or(cfg.Messages.Route.Columns.Type, "type"))
	}
	if len(o.Types) > 0 && len(s.typeHeaders) == 0 {
		return nil, &replication.SetupError{
			Code:    fault.Configuration,
			Problem: "dead letters cannot be chosen by event type, since no placement makes a header of it",
			Remedy:  "choose by id, key or time; or from the tables, with --from tables",
		}
	}
	return s, nil
}

func (s *selection) addTypeHeader(route router.Config, column string) {
	placements, _ := router.ParsePlacements(route.Placements)
	for _, p := range placements {
		if p.Place == router.PlaceHeader && p.Column == column {
			s.typeHeaders = append(s.typeHeaders, p.Alias)
		}
	}
}

// takes tells whether a dead letter is chosen.
func (s *selection) takes(l *letter) bool {
	at := time.UnixMicro(l.place.Time)
	switch {
	case !s.Since.IsZero() && at.Before(s.Since), !s.Until.IsZero() && at.After(s.Until),
		l.place.Commit < s.FirstLSN, s.LastLSN != 0 && l.place.Commit > s.LastLSN,
		len(s.Keys) > 0 && (l.message.Key == nil || !slices.Contains(s.Keys, string(l.message.Key))),
		len(s.Types) > 0 && !s.ofType(l):
		return false
	}
	taken := len(s.named) == 0
	for _, name := range []string{l.id, l.place.String()} {
		if _, named := s.named[name]; named && name != "" {
			s.named[name], taken = true, true
		}
	}
	return taken
}

// ofType tells whether the event type is one of those that are asked for. A header may have it as JSON.
func (s *selection) ofType(l *letter) bool {
	for _, h := range l.message.Headers {
		text := string(h.Value)
		if slices.Contains(s.typeHeaders, h.Name) &&
			slices.ContainsFunc(s.Types, func(want string) bool { return text == want || text == strconv.Quote(want) }) {
			return true
		}
	}
	return false
}
