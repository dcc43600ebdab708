package process

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"
)

// BenchmarkExecute runs a script that prints a line, and reports the CPU time that this program needs for it.
func BenchmarkExecute(b *testing.B) {
	path := filepath.Join(b.TempDir(), "hook.sh")
	if err := os.WriteFile(path, []byte("#!/bin/sh\necho ran\n"), 0o755); err != nil {
		b.Fatal(err)
	}
	e := New(Options{})
	in := Invocation{Hook: "hook.sh", Path: path, Env: []string{"PATH=" + os.Getenv("PATH")},
		Stdout: func([]byte) {}, Stderr: func([]byte) {}}
	b.ReportAllocs()
	before := ownCPU(b)
	for b.Loop() {
		if _, err := e.Execute(b.Context(), in); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64((ownCPU(b)-before).Microseconds())/float64(b.N), "own-cpu-µs/op")
}

// ownCPU is the CPU time of this program without its children.
func ownCPU(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
