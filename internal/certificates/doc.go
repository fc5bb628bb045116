// Package certificates makes certificate authorities and what they sign, for servers that tests start.
//
// Everything is made anew and is valid for two days. An Authority is for one goroutine.
package certificates
