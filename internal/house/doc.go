// Package house checks the code base against its own promises: who imports whom, how large a file or function may grow,
// which names say nothing, what is documented, who starts goroutines, what must not stand in a public text. Each rule is a
// function from a Tree to violations; the test reports all of them at once.
//
// It does not judge style: gofmt, go vet and staticcheck do that.
//
// Nothing here is for concurrent use.
package house
