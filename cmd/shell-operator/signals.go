package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// untilSignal returns a context for commands that just end with the first SIGINT or SIGTERM; the second one ends them
// as it ends every program.
func untilSignal() (context.Context, context.CancelFunc) {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	endUnseen(stop)
	return ctx, stop
}

// signals returns a context that ends with the first SIGINT or SIGTERM. The second one calls again.
func signals(again func(syscall.Signal)) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	ch := make(chan os.Signal, 2)
	signal.Notify(ch, syscall.SIGINT, syscall.SIGTERM)
	go func() {
		<-ch
		cancel()
		if sig, ok := (<-ch).(syscall.Signal); ok {
			again(sig)
		}
	}()
	endUnseen(cancel)
	return ctx, cancel
}

// endUnseen calls end when the terminal is closed, unless nohup ignores that, and when nothing reads the output any more. Both would end
// the process without its cleanup: hooks, control planes, webhook configurations and files would stay. A shell repeats SIGHUP, and Ctrl-C
// ends the reader, too: neither counts as a second signal.
func endUnseen(end func()) {
	closed, broken := make(chan os.Signal, 1), make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE) // also for a connection
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(closed, syscall.SIGHUP)
	}
	go func() {
		for {
			select {
			case <-closed:
				end()
			case <-broken:
				if unread(syscall.Stdout) || unread(syscall.Stderr) {
					end()
				}
			}
		}
	}()
}

// unread reports whether a pipe has no reader any more.
func unread(fd int) bool {
	poll := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLOUT}}
	n, err := unix.Poll(poll, 0)
	return err == nil && n > 0 && poll[0].Revents&(unix.POLLERR|unix.POLLHUP) != 0
}
