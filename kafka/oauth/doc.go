// Package oauth is the SASL mechanism OAUTHBEARER (RFC 7628) with tokens of the client credentials grant (RFC 6749, section
// 4.4), or with tokens that somebody else has made.
//
// A Source asks for a token when there is none or the last one has lived four fifths of its time; it is safe for
// concurrent use, and holds no goroutine. Neither tokens nor secrets are ever part of an error.
package oauth
