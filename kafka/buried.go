package kafka

import (
	"context"
	"errors"
	"strings"

	"go.uber.org/zap"

	"github.com/walrelay/walrelay/lsn"
	"github.com/walrelay/walrelay/router"
)

// buried are the uncertain events that an earlier producer has put into a dead-letter topic. They count as found wherever
// they would go now, since what stops them may have been mended in between: published after all they would end the
// suppression of everything behind them.
//
// The hash is that of the event's id; anyID where the dead letter has none, because the event could not be read so far.
type buried map[lsn.Identity]uint64

const anyID = 0

func (b buried) has(m *router.Message) bool {
	hash, ok := b[m.Identity]
	return ok && (hash == anyID || hash == messageHash(m))
}

// exhume reads the dead-letter topics up to markers of our own.
func (p *Producer) exhume(ctx context.Context, control *coordinator, who identity, resume *Resume) (buried, error) {
	r := NewLogReader(p.cfg, p.log)
	defer r.Close()
	found := buried{}
	topics := resume.DeadLetterTopics
	err := r.mark(ctx, control, who, topics)
	if err == nil {
		since := resume.Since
		if !since.IsZero() {
			since = since.Add(-scanMargin)
		}
		err = r.Read(ctx, topics, since, func(record *Record) error {
			found.take(record, resume)
			return nil
		})
	}
	var forbidden *ForbiddenError
	if (errors.As(err, &forbidden) || isCode(err, codeTopicForbidden)) && p.cfg.ResumePolicy != ResumeRequire {
		p.log.Warn("no right to read the dead-letter topic: what is behind a dead letter may be published twice after the last "+
			"unclean stop", zap.Strings("topics", topics), zap.Error(err))
		return found, nil
	}
	return found, err
}

// take looks at one dead letter. It has the headers of the event in front of ours.
func (b buried) take(record *Record, resume *Resume) {
	last := len(record.Headers) - 1
	if last < 0 || string(record.Headers[last].Name) != router.HeaderPosition || len(b) >= maxPast {
		return
	}
	id, err := lsn.ParseIdentity(string(record.Headers[last].Value))
	if err != nil || !resume.holds(id) {
		return
	}
	hash := uint64(anyID)
	if first := record.Headers[0]; !strings.HasPrefix(string(first.Name), "walrelay.") {
		hash = idHash(first.Value)
	}
	b[id] = hash
}
