// Package admin is the HTTP side of the relay for people, probes and monitoring: the status page, /healthz, /readyz, /metrics
// and /status, and, for whoever has the token, /pause, /resume, /skip and /log/level. It knows nothing of the relay: it is
// handed functions, which it calls for each request.
//
// guard.go stands before all of it: token, TLS, headers, limits; a page that changes something must go through
// guard.changes. Serve owns the listener and returns when everything is closed.
package admin
