// Package admin is the HTTP side of the relay for probes and monitoring: /healthz, /readyz, /metrics and
// /status. It knows nothing of the relay: it is handed functions, which it calls for each request.
//
// Nothing here changes anything. guard.go stands before all of it: token, TLS, headers, limits; a page that changes
// something must go through guard.changes. Serve owns the listener and returns when everything is closed.
package admin
