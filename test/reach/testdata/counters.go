// Part of the operator of make reach only: SIGUSR1 clears the counters of its blocks, SIGUSR2 writes them.
package docs

import (
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/coverage"
	"syscall"
	"time"
)

func init() {
	asked := make(chan os.Signal, 1)
	signal.Notify(asked, syscall.SIGUSR1, syscall.SIGUSR2)
	go func() {
		for written := 0; ; {
			signal := <-asked
			time.Sleep(2 * time.Second) // for what an event does after its run
			if signal == syscall.SIGUSR1 {
				report("cleared", coverage.ClearCounters())
				continue
			}
			dir := filepath.Join(os.Getenv("COUNTERS"), fmt.Sprint(written))
			err := os.MkdirAll(dir, 0o700)
			if err == nil {
				err = coverage.WriteMetaDir(dir)
			}
			if err == nil {
				err = coverage.WriteCountersDir(dir)
			}
			report(fmt.Sprintf("written %d", written), err)
			written++
		}
	}()
}

func report(done string, err error) {
	if err != nil {
		done = err.Error()
	}
	fmt.Printf("{\"msg\": \"counters: %s\"}\n", done)
}
