package admin

import (
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"sync/atomic"
	"time"
)

//go:embed page.html
var page []byte

// policy lets a browser load and run nothing but what is in the page itself.
var policy = fmt.Sprintf("default-src 'none'; connect-src 'self'; img-src data:; style-src '%s'; script-src '%s'; base-uri 'none'; frame-ancestors 'none'",
	digest("style"), digest("script"))

// digest names the content of the page's one element of that name.
func digest(element string) string {
	content := regexp.MustCompile(`(?s)<` + element + `>(.*)</` + element + `>`).FindSubmatch(page)[1]
	sum := sha256.Sum256(content)
	return "sha256-" + base64.StdEncoding.EncodeToString(sum[:])
}

func servePage(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy)
	w.Header().Set("Referrer-Policy", "no-referrer")
	_, _ = w.Write(page) // the client went away
}

const (
	// eventInterval is between two events of a stream.
	eventInterval = time.Second
	// maxStreams bounds the pages that are kept up to date at once.
	maxStreams = 32
)

// events are server-sent events, each with the status as JSON, until the client goes away or the server ends.
type events struct {
	status func() any
	open   atomic.Int32
}

// ServeHTTP implements http.Handler.
func (e *events) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	defer e.open.Add(-1)
	if e.open.Add(1) > maxStreams {
		http.Error(w, "too many pages are open", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no") // of proxies
	control := http.NewResponseController(w)
	ticker := time.NewTicker(eventInterval)
	defer ticker.Stop()
	for {
		text, err := json.Marshal(e.status())
		if err == nil {
			err = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "data: %s\n\n", text)
		}
		if err == nil {
			err = control.Flush()
		}
		if err != nil {
			return
		}
		select {
		case <-r.Context().Done():
			return
		case <-ticker.C:
		}
	}
}
