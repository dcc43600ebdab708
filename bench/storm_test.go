package bench

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/bench/objects"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// stormCommand counts the contexts of a run.
const stormCommand = "jq length $BINDING_CONTEXT_PATH"

const stormObjects, stormUpdates, stormWriters = 100, 3000, 8

// storm lets 8 writers update 100 objects 3,000 times as fast as they can.
func storm(b *bench) {
	var peers, peerRuns, peerLate []float64
	var all, bare []stormed
	for range 3 {
		namespace := b.stormObjects()
		bare = append(bare, b.bareStorm(namespace))
		used, reconciles, late := b.peerStorm(namespace, func() { b.stormUpdates(namespace, "peer") })
		peers, peerRuns, peerLate = append(peers, used), append(peerRuns, reconciles), append(peerLate, late)
		all = append(all, b.stormOn(namespace, stormHook(namespace, "", stormCommand)))
		b.progress("%s; a bare program: %s; controller-runtime: %.2f s", all[len(all)-1], bare[len(bare)-1], used)
	}
	compare := func(what, unit string, value func(stormed) float64) *figure {
		return b.add(what, unit, of(all, value)...).against("bare program and its scripts", of(bare, value)...)
	}
	compare("CPU time of operator and hooks", "s", func(s stormed) float64 { return s.used + s.hooks }).times(0.6, 0)
	compare("CPU time of the operator", "s", func(s stormed) float64 { return s.used })
	compare("CPU time of the hooks", "s", func(s stormed) float64 { return s.hooks })
	compare("runs", "", func(s stormed) float64 { return s.runs })
	b.add("last context delivered after the last write", "s", of(all, func(s stormed) float64 { return s.late })...).most(0.3)
	b.add("change → the run that has it, 99th percentile", "s", of(all, func(s stormed) float64 { return s.waited })...).most(0.25)
	b.add("CPU time of Reconcile in Go with controller-runtime", "s", peers...)
	b.add("its reconciles", "", peerRuns...)
	b.add("its last one after the last write", "s", peerLate...)
}

// stormLanes is a storm in a keyed queue, stormTwo one on two hooks of one queue, and stormSlow one on a hook of a second.
func stormLanes(b *bench) {
	b.stormsOn(func(namespace string) []string {
		return []string{stormHook(namespace, "queue: {name: q, key: object, concurrency: 4}, ", stormCommand)}
	})
}

func stormTwo(b *bench) {
	b.stormsOn(func(namespace string) []string {
		return []string{stormHook(namespace, "", stormCommand), stormHook(namespace, "", stormCommand)}
	})
}

func stormSlow(b *bench) {
	b.stormsOn(func(namespace string) []string { return []string{stormHook(namespace, "", "sleep 1; "+stormCommand)} })
}

func (b *bench) stormsOn(hooks func(namespace string) []string) {
	var all []stormed
	for range 3 {
		namespace := b.stormObjects()
		all = append(all, b.stormOn(namespace, hooks(namespace)...))
		b.progress("%s", all[len(all)-1])
	}
	b.add("CPU time of operator and hooks", "s", of(all, func(s stormed) float64 { return s.used + s.hooks })...)
	b.add("last context delivered after the last write", "s", of(all, func(s stormed) float64 { return s.late })...)
	b.add("change → the run that has it, 99th percentile", "s", of(all, func(s stormed) float64 { return s.waited })...)
	b.add("runs", "", of(all, func(s stormed) float64 { return s.runs })...)
}

// stormed is what an operator has done in a storm. Used and hooks are the seconds of CPU of the operator and of its hooks; late is the time
// from the last write to the end of the run that has it, waited from a write to the beginning of its run, 99th percentile.
type stormed struct{ runs, used, hooks, late, waited float64 }

func (s stormed) String() string {
	return fmt.Sprintf("%.0f runs, %.2f + %.2f s of CPU, late by %.3f s, waited %.3f s", s.runs, s.used, s.hooks, s.late, s.waited)
}

func of(all []stormed, what func(stormed) float64) (values []float64) {
	for _, s := range all {
		values = append(values, what(s))
	}
	return values
}

// stormHook is a hook that counts the contexts that it gets.
func stormHook(namespace, more, command string) string {
	return hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnEvent: [Modified], "+
		"executeHookOnSynchronization: false, %snamespace: {nameSelector: {matchNames: [%s]}}}]}", more, namespace), command)
}

func (b *bench) stormObjects() (namespace string) {
	namespace = b.cluster.Namespace(b.T)
	b.each(stormWriters, stormObjects, func(client *kubernetes.Clientset, i int) error {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(context.Background(), objects.ConfigMap(i, 1024), metav1.CreateOptions{})
		return err
	})
	return namespace
}

// stormUpdates returns when each write was answered, in the order of the versions.
func (b *bench) stormUpdates(namespace, round string) (written []time.Time) {
	var mu sync.Mutex
	at := map[uint64]time.Time{}
	b.each(stormWriters, stormUpdates, func(client *kubernetes.Clientset, i int) error {
		o := objects.ConfigMap(i%stormObjects, 1024)
		o.Data["round"] = fmt.Sprint(round, i)
		o, err := client.CoreV1().ConfigMaps(namespace).Update(context.Background(), o, metav1.UpdateOptions{})
		if err != nil {
			return err
		}
		version, err := strconv.ParseUint(o.ResourceVersion, 10, 64)
		mu.Lock()
		defer mu.Unlock()
		at[version] = time.Now()
		return err
	})
	for _, version := range slices.Sorted(maps.Keys(at)) {
		written = append(written, at[version])
	}
	return written
}

// stormOn lets an operator with these hooks, which get each change, live through a storm.
func (b *bench) stormOn(namespace string, hooks ...string) (s stormed) {
	op := b.start(b.hooks(hooks...))
	defer op.stop()
	op.untilCount("Unlock kubernetes.Event tasks", len(hooks))
	before, beforeHooks := op.cpu(), b.childrenCPU(op.Pid())
	written := b.stormUpdates(namespace, "beside")
	last := time.Now()
	op.untilCount("queue task", len(hooks)*stormUpdates)
	var began, counted map[string][]testenv.Record
	if err := op.TryUntil(time.Minute, func(records []testenv.Record) bool {
		began, counted = map[string][]testenv.Record{}, map[string][]testenv.Record{}
		contexts := 0
		for _, r := range records {
			var n int
			if r.Has("Execute hook") {
				began[r.Fields["hook"]] = append(began[r.Fields["hook"]], r)
			} else if _, err := fmt.Sscanf(r.Fields["msg"], "%d", &n); err == nil && r.Fields["output"] == "stdout" {
				counted[r.Fields["hook"]] = append(counted[r.Fields["hook"]], r)
				contexts += n
			}
		}
		return contexts >= len(hooks)*stormUpdates
	}); err != nil {
		b.Fatalf("not all contexts came: %v", err)
	}
	op.untilCount("Hook executed successfully", op.Count("Execute hook"))
	s = stormed{runs: float64(op.Count("Execute hook")), used: op.cpu() - before, hooks: b.childrenCPU(op.Pid()) - beforeHooks}
	var waits []float64
	for name, runs := range counted { // the order of runs in lanes is about the same
		k := 0
		for i, r := range runs {
			s.late = max(s.late, r.At.Sub(last).Seconds())
			n := 0
			_, _ = fmt.Sscan(r.Fields["msg"], &n)
			for range n {
				waits, k = append(waits, began[name][i].At.Sub(written[k]).Seconds()), k+1
			}
		}
	}
	slices.Sort(waits)
	s.waited = percentile(waits, 99)
	return s
}

// bareStorm lets a bare program and its scripts do the same. It stores no objects, logs nothing, and reads no results.
func (b *bench) bareStorm(namespace string) (s stormed) {
	program := b.startBare("storm", b.cluster.Kubeconfig, namespace, filepath.Join(b.hooks("#!/bin/sh\n"+stormCommand+"\n"), "hook-00.sh"))
	defer program.end()
	before := b.cpu(program.cmd.Process.Pid)
	b.stormUpdates(namespace, "bare")
	for contexts := 0; contexts < stormUpdates; s.runs++ {
		n, err := strconv.Atoi(program.line(b))
		if err != nil {
			b.Fatal(err)
		}
		contexts += n
	}
	s.used, s.hooks = b.cpu(program.cmd.Process.Pid)-before, b.childrenCPU(program.cmd.Process.Pid)
	return s
}

// peerStorm returns the CPU time in seconds that the operator of bench/peers uses for the same, the number of its reconciles, and
// the seconds from the last write until it has reconciled the last version of each object.
func (b *bench) peerStorm(namespace string, write func()) (used, reconciles, late float64) {
	p, _ := b.startPeer(namespace)
	defer p.stop()
	initial := b.resourceVersions(namespace)
	for range len(initial) - 1 {
		p.next()
	}
	before := b.cpu(p.cmd.Process.Pid)
	write()
	last := time.Now()
	waiting := b.resourceVersions(namespace)
	maps.DeleteFunc(waiting, func(name, version string) bool { return initial[name] == version })
	var at time.Time
	for ; len(waiting) > 0; reconciles++ {
		line := p.next()
		if at = line.at; waiting[line.name] == line.version {
			delete(waiting, line.name)
		}
	}
	return b.cpu(p.cmd.Process.Pid) - before, reconciles, at.Sub(last).Seconds()
}

// resourceVersions returns the resource version of each ConfigMap of a namespace, by its name.
func (b *bench) resourceVersions(namespace string) map[string]string {
	list, err := b.client().CoreV1().ConfigMaps(namespace).List(b.Context(), metav1.ListOptions{})
	if err != nil {
		b.Fatal(err)
	}
	versions := map[string]string{}
	for _, o := range list.Items {
		versions[o.Name] = o.ResourceVersion
	}
	return versions
}
