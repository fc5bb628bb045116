package outbox

import (
	"context"
	"regexp"
)

type traceKey struct{}

// traceFormat is version 00 of the W3C recommendation Trace Context: trace id, parent id, flags.
var traceFormat = regexp.MustCompile(`^00-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)

// WithTraceParent gives a context whose events carry the W3C header traceparent, so that a consumer's trace goes on with the
// caller's: in the column Columns.TraceParent, or in the message. A text that is not a traceparent of version 00 is left
// out, as the recommendation wants it: a broken trace must not break a transaction.
func WithTraceParent(ctx context.Context, traceparent string) context.Context {
	if !traceFormat.MatchString(traceparent) {
		return ctx
	}
	return context.WithValue(ctx, traceKey{}, traceparent)
}

// traceParent is empty where there is none.
func traceParent(ctx context.Context) string {
	text, _ := ctx.Value(traceKey{}).(string)
	return text
}
