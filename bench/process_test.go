package bench

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// settle is how long after the first run memory is read.
const settle = 10 * time.Second

// hooks writes hook files, which are named by their place.
func (b *bench) hooks(texts ...string) string {
	dir := b.TempDir()
	for i, text := range texts {
		testenv.Script(b, dir, fmt.Sprintf("hook-%02d.sh", i), text)
	}
	return dir
}

// hook is a sh hook with a configuration in YAML or JSON and the commands of a run.
func hook(config, commands string) string {
	return "#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'END'\n" + config + "\nEND\nexit; fi\n" + commands + "\n"
}

// operator is a running operator, as users build it.
type operator struct {
	*testenv.Operator
	b      *bench
	ending sync.Once
}

func (b *bench) start(dir string, flags ...string) *operator {
	b.Helper()
	args := append([]string{"--run-dir", b.runDir()}, flags...)
	if profiles != "" {
		args = append(args, "--profiling")
	}
	op := &operator{b: b, Operator: testenv.Start(b.T, testenv.OperatorOptions{
		HooksDir: dir, Kubeconfig: b.cluster.Kubeconfig, Binary: b.binary(), Args: args,
	})}
	op.profile("cpu", "profile?seconds=86400") // it ends with the operator
	b.Cleanup(func() {
		op.end()
		b.profiling.Wait()
	})
	return op
}

// runDir returns a directory on tmpfs for the files of runs, as the chart mounts it; elsewhere the disk decides the figures.
func (b *bench) runDir() string {
	b.Helper()
	const tmpfs = "/dev/shm"
	if _, err := os.Stat(tmpfs); err != nil {
		return b.TempDir()
	}
	dir, err := os.MkdirTemp(tmpfs, "bench-")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// binary is the program as users have it. TESTOPERATOR names another one, so that two can be compared in turns; tests of the bench itself
// take theirs.
func (b *bench) binary() string {
	if os.Getenv("BENCH") == "" || os.Getenv("TESTOPERATOR") != "" {
		return testenv.Binary(b.T)
	}
	return filepath.Join(test.Root(), "bin", "shell-operator")
}

// profiles is the directory for profiles of the operators; empty means none.
var profiles = os.Getenv("BENCH_PROFILES")

// profile fetches a profile in the background, if profiles are wanted; its file is named by the scenario, the process and the kind.
func (op *operator) profile(kind, page string) {
	if profiles != "" {
		op.b.profiling.Go(func() { op.fetch(kind, page) })
	}
}

func (op *operator) fetch(kind, page string) {
	url := op.Address() + "/debug/pprof/" + page
	path := filepath.Join(profiles, fmt.Sprintf("%s-%d.%s.pprof", op.b.name, op.Pid(), kind))
	res, err := http.Get(url)
	if err != nil {
		return // the operator has ended
	}
	defer res.Body.Close()
	if text, err := io.ReadAll(res.Body); err == nil && res.StatusCode == http.StatusOK {
		_ = os.WriteFile(path, text, 0o644)
	}
}

// end fetches a profile of the heap and stops the operator, if profiles are enabled.
func (op *operator) end() {
	op.ending.Do(func() {
		if profiles == "" {
			return
		}
		op.fetch("heap", "heap?gc=1")
		op.Signal(syscall.SIGTERM)
		op.Wait()
	})
}

func (op *operator) stop() {
	op.end()
	op.Signal(syscall.SIGTERM)
	if status := op.Wait(); status != 0 {
		op.b.Fatalf("the operator ended with status %d\n%s", status, op.Errors.String())
	}
}

// untilCount waits for the n-th record with a message and returns it. It reads each record once.
func (op *operator) untilCount(message string, n int) testenv.Record {
	op.b.Helper()
	seen, next := 0, 0
	var last testenv.Record
	err := op.TryUntil(10*time.Minute, func(records []testenv.Record) bool {
		for ; next < len(records) && seen < n; next++ {
			if records[next].Has(message) {
				seen++
				last = records[next]
			}
		}
		return seen >= n
	})
	if err != nil {
		op.b.Fatalf("waited for %d times %q, came %d times: %v", n, message, seen, err)
	}
	return last
}

// cpu is the CPU time in seconds that the operator, not its hooks, has used.
func (op *operator) cpu() float64 { return op.b.cpu(op.Pid()) }

func (b *bench) cpu(pid int) float64 { return b.ticks(pid, 11) }

// childrenCPU is the CPU time in seconds of the children that a process has waited for, and of theirs.
func (b *bench) childrenCPU(pid int) float64 { return b.ticks(pid, 13) }

// ticks returns the sum of two fields of /proc/PID/stat, from the one behind the name on, in seconds.
func (b *bench) ticks(pid, first int) float64 {
	b.Helper()
	stat := b.proc(pid, "stat")
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	user, _ := strconv.Atoi(fields[first])
	system, _ := strconv.Atoi(fields[first+1])
	return float64(user+system) / 100 // ticks of 1/100 s
}

// resident and peak are in MiB.
func (op *operator) resident() float64 { return op.memory("VmRSS") }
func (op *operator) peak() float64     { return op.memory("VmHWM") }

func (op *operator) memory(key string) float64 { return op.b.memory(op.Pid(), key) }

func (b *bench) memory(pid int, key string) float64 {
	m := regexp.MustCompile(key + `:\s+(\d+) kB`).FindStringSubmatch(b.proc(pid, "status"))
	if m == nil {
		b.Fatalf("no %s in /proc", key)
	}
	kb, _ := strconv.ParseFloat(m[1], 64)
	return kb / 1024
}

func (b *bench) proc(pid int, file string) string {
	if runtime.GOOS != "linux" {
		b.Skip("reads /proc, which only Linux has")
	}
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	if err != nil {
		b.Fatal(err)
	}
	return string(text)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
