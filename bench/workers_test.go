package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/bench/objects"
	"github.com/shell-operator/shell-operator/internal/test"
)

// pythonWorker is a hook with the library and the imports of many hooks. %s are the configuration and a registration.
const pythonWorker = `#!/usr/bin/env python3
import decimal, http.client, json, sys, urllib.parse, urllib.request
sys.path.insert(0, %q)
from shell_operator_hook import Hook, admission

hook = Hook(json.loads(%q))

%s

if __name__ == "__main__":
    hook.run()
`

const printsRan = `@hook.otherwise
def handle(context):
    print("ran")`

func pythonHook(config, handler string) string {
	return fmt.Sprintf(pythonWorker, filepath.Join(test.Root(), "sdk", "python"), config, handler)
}

// bashLibrary is the same in bash.
const bashLibrary = `#!/usr/bin/env bash
source "$SHELL_LIB"
__config__() { cat <<'END'
%s
END
}
__on_kubernetes::cms() { echo "ran $(context::get object.metadata.name)"; }
hook::run "$@"
`

// ofWorker is the configuration of a hook as worker that gets each new ConfigMap of a namespace in a run of its own.
func ofWorker(namespace, more string) string {
	return fmt.Sprintf(`{"configVersion": "v1", "settings": {"worker": true, "contextsPerRun": 1}, "kubernetes": [{"name": "cms", `+
		`"kind": "ConfigMap", "apiVersion": "v1", "executeHookOnEvent": ["Added"], "namespace": {"nameSelector": {"matchNames": ["%s"]}}%s}]}`,
		namespace, more)
}

// withoutWorkers is the same operator without workers.
const withoutWorkers = "--workers=false"

// workers measures hooks that start once, in turns with the same hooks without worker.
func workers(b *bench) {
	workersLatency(b)
	workersCPU(b)
}

// workersLatency creates objects one at a time, in turns for a Python hook as worker and without worker, for sh, and for the bare program.
func workersLatency(b *bench) {
	const times = 100
	client := b.client()
	script := filepath.Join(b.hooks("#!/bin/sh\necho ran\n"), "hook-00.sh")
	bareNamespace := b.cluster.Namespace(b.T)
	program := b.startBare("latency", b.cluster.Kubeconfig, bareNamespace, script)
	type contender struct {
		namespace string
		op        *operator
		delays    []float64
	}
	var all []*contender
	for _, c := range []struct {
		text  func(namespace string) string
		flags []string
	}{
		{func(ns string) string { return pythonHook(ofWorker(ns, ""), printsRan) }, nil},
		{func(ns string) string { return pythonHook(ofWorker(ns, ""), printsRan) }, []string{withoutWorkers}},
		{func(ns string) string {
			return hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnEvent: [Added], "+
				"namespace: {nameSelector: {matchNames: [%s]}}}]}", ns), "echo ran")
		}, nil},
	} {
		namespace := b.cluster.Namespace(b.T)
		op := b.start(b.hooks(c.text(namespace)), c.flags...)
		op.untilCount("ran", 1)
		op.untilCount("Unlock kubernetes.Event tasks", 1)
		all = append(all, &contender{namespace: namespace, op: op})
	}
	create := func(namespace string, i int) time.Time {
		started := time.Now()
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(b.Context(), objects.ConfigMap(i, 200), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		return started
	}
	var bare []float64
	for i := range times {
		for _, c := range all {
			started := create(c.namespace, i)
			c.delays = append(c.delays, milliseconds(c.op.untilCount("ran", i+2).At.Sub(started)))
			c.op.untilCount("Hook executed successfully", i+2)
		}
		started := create(bareNamespace, i)
		program.line(b)
		bare = append(bare, milliseconds(time.Since(started)))
	}
	worker, process, sh := all[0].delays, all[1].delays, all[2].delays
	b.add("create → first line, Python worker", "ms", worker...).against("sh without worker", sh...).times(3, 0)
	b.add("the same", "ms", worker...).against("without worker", process...).times(0.25, 0)
	b.add("the same in sh without worker", "ms", sh...).against("watch, fork and exec by a bare program", bare...).times(1.5, 0)
	b.add("99th percentile, Python worker", "ms", percentile(spreadOf(worker).all, 99)).
		against("without worker", percentile(spreadOf(process).all, 99))
}

// workersCPU measures operator and hook together: 3,000 runs of a Python worker and 300 without worker, and 1,000 runs of bash with the
// library both ways.
func workersCPU(b *bench) {
	const times = 3
	some, many, most := b.fill("ConfigMap", 300), b.fill("ConfigMap", 1000), b.fill("ConfigMap", 3000)
	const more = `, "initialObjects": "added", "jqFilter": ".metadata.name", "keepFullObjectsInMemory": false`
	const full = `, "initialObjects": "added"`
	text := func(ns string) string { return pythonHook(ofWorker(ns, more), printsRan) }
	library := fmt.Sprintf(bashLibrary, ofWorker(many, full))
	var worker, process, bashWorker, bashProcess, source []float64
	for n := range times + 1 {
		turn := []float64{
			b.cpuPerRun(text(most), 3000), b.cpuPerRun(text(some), 300, withoutWorkers),
			b.cpuPerRun(library, 1000), b.cpuPerRun(library, 1000, withoutWorkers), b.cpuOfLibrary(),
		}
		if n > 0 { // the first turn fills the caches
			for i, samples := range []*[]float64{&worker, &process, &bashWorker, &bashProcess, &source} {
				*samples = append(*samples, turn[i])
			}
		}
	}
	b.add("CPU time of operator and hook per run, Python worker, 3,000 runs", "ms", worker...).against("without worker, 300 runs", process...).
		times(0.15, 0)
	f := b.add("the same, bash with the library, 1,000 runs", "ms", bashWorker...).against("without worker", bashProcess...)
	f.limit(f.Bound.Median-0.5*spreadOf(source).Median, "bound - 0.5 × start with the library")
	b.add("start of bash with the library", "ms", source...)
}

// cpuPerRun is the CPU time, in milliseconds, of an operator and its hook per run.
func (b *bench) cpuPerRun(text string, runs int, flags ...string) float64 {
	b.Helper()
	op := b.start(b.hooks(text), flags...)
	op.untilCount("Execute hook", 1)
	before, own := b.cpuOfAll(op.Pid()), op.cpu()
	op.untilCount("Hook executed successfully", runs)
	used, operators := b.cpuOfAll(op.Pid())-before, op.cpu()-own
	b.progress("%d runs %s: %.2f ms each, %.2f ms of it in the operator", runs, strings.Join(flags, " "), used*1000/float64(runs),
		operators*1000/float64(runs))
	op.stop()
	return used * 1000 / float64(runs)
}

// cpuOfAll is the CPU time in seconds of a process, of its children and of those that they have waited for.
func (b *bench) cpuOfAll(pid int) (seconds float64) {
	b.Helper()
	for _, fields := range b.children(pid) {
		seconds += cpuOf(fields)
	}
	stat := b.proc(pid, "stat") // read last: it has the time of children that have ended meanwhile
	return seconds + cpuOf(strings.Fields(stat[strings.LastIndex(stat, ")")+1:]))
}

// cpuOf adds the CPU times in seconds of the fields after the name in /proc/PID/stat: those of the process and of children that it has
// waited for.
func cpuOf(fields []string) (seconds float64) {
	for _, ticks := range fields[11:15] {
		n, _ := strconv.Atoi(ticks)
		seconds += float64(n) / 100
	}
	return seconds
}

// children returns the processes that a process has started, with the fields after the name in their /proc/PID/stat.
func (b *bench) children(pid int) map[int][]string {
	b.Helper()
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil || len(stats) == 0 {
		b.Skip("reads /proc, which only Linux has")
	}
	found := map[int][]string{}
	for _, path := range stats {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		fields := strings.Fields(string(text[strings.LastIndex(string(text), ")")+1:]))
		child, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if len(fields) > 14 && fields[1] == strconv.Itoa(pid) {
			found[child] = fields
		}
	}
	return found
}

// cpuOfLibrary is the CPU time, in milliseconds, of a bash that reads the library, on average of many.
func (b *bench) cpuOfLibrary() float64 {
	b.Helper()
	const times = 100
	library := filepath.Join(test.Root(), "sdk", "shell", "shell_lib.sh")
	var used time.Duration
	for range times {
		cmd := exec.Command("bash", "-c", `source "$0"`, library)
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		used += cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	}
	return milliseconds(used) / times
}
