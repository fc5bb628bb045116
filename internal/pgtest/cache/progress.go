package cache

import (
	"fmt"
	"time"
)

// Report says text at once, and again with the time passed every three seconds until stop is called. progress
// may be nil.
func Report(progress func(string), text string) (stop func()) {
	if progress == nil {
		return func() {}
	}
	progress(text)
	started := time.Now()
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		tick := time.NewTicker(3 * time.Second)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				progress(fmt.Sprintf("%s: %d s", text, int(time.Since(started).Seconds())))
			case <-quit:
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-ended
	}
}
