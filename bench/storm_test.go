package bench

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/bench/objects"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// stormCommand counts the contexts of a run.
const stormCommand = `grep -o '"watchEvent":"Modified"' $BINDING_CONTEXT_PATH | wc -l`

// storm lets 8 writers update 100 objects 3,000 times as fast as they can.
func storm(b *bench) {
	const times, objectCount, updates, writers = 3, 100, 3000, 8
	var late, alone, beside, bare, bareRuns, peers, peerRuns, peerLate, cpuPerEvent, runs []float64
	for range times {
		namespace := b.cluster.Namespace(b.T)
		b.each(writers, objectCount, func(client *kubernetes.Clientset, i int) error {
			_, err := client.CoreV1().ConfigMaps(namespace).Create(context.Background(), objects.ConfigMap(i, 1024), metav1.CreateOptions{})
			return err
		})
		write := func(round string) (seconds float64) {
			started := time.Now()
			b.each(writers, updates, func(client *kubernetes.Clientset, i int) error {
				o := objects.ConfigMap(i%objectCount, 1024)
				o.Data["round"] = fmt.Sprint(round, i)
				_, err := client.CoreV1().ConfigMaps(namespace).Update(context.Background(), o, metav1.UpdateOptions{})
				return err
			})
			return time.Since(started).Seconds()
		}
		alone = append(alone, write("alone"))
		bareUsed, bareRan := b.bareStorm(namespace, updates, func() { write("bare") })
		bare, bareRuns = append(bare, bareUsed*1000/updates), append(bareRuns, bareRan)
		peerUsed, reconciles, peerDelay := b.peerStorm(namespace, func() { write("peer") })
		peers, peerRuns, peerLate = append(peers, peerUsed*1000/updates), append(peerRuns, reconciles), append(peerLate, peerDelay)
		// The hook counts the contexts that it gets.
		op := b.start(
			b.hooks(hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnEvent: [Modified], "+
				"namespace: {nameSelector: {matchNames: [%s]}}}]}", namespace),
				stormCommand)))
		op.untilCount("Unlock kubernetes.Event tasks", 1)
		before, ran := op.cpu(), op.Count("Execute hook")
		beside = append(beside, write("beside"))
		last := time.Now()
		op.untilCount("queue task", updates)
		// The end of the run that delivered the last context.
		var delivered time.Time
		if err := op.TryUntil(time.Minute, func([]testenv.Record) bool {
			var contexts int
			contexts, delivered = op.delivered()
			return contexts >= updates
		}); err != nil {
			b.Fatalf("not all contexts came: %v", err)
		}
		op.untilCount("Hook executed successfully", op.Count("Execute hook"))
		late = append(late, delivered.Sub(last).Seconds())
		used, n := op.cpu()-before, float64(op.Count("Execute hook")-ran)
		runs = append(runs, n)
		cpuPerEvent = append(cpuPerEvent, used*1000/updates)
		b.progress("%d events in %.0f runs, %.2f s of CPU; the writers took %.2f s, alone %.2f s; a bare program used %.2f s in %.0f runs, "+
			"controller-runtime %.2f s in %.0f reconciles",
			updates, n, used, beside[len(beside)-1], alone[len(alone)-1], bareUsed, bareRan, peerUsed, reconciles)
		op.stop()
	}
	b.add("last context delivered after the last write", "s", late...).most(0.3)
	b.add("operator's CPU time per event", "ms", cpuPerEvent...).against("watch, file, fork and exec by a bare program", bare...).times(1.8, 0)
	b.add("writers beside the operator", "s", beside...).against("writers alone", alone...)
	b.add("runs", "", runs...).against("bare program", bareRuns...)
	b.add("CPU time per event of Reconcile in Go with controller-runtime", "ms", peers...)
	b.add("its reconciles", "", peerRuns...)
	b.add("its last one after the last write", "s", peerLate...)
}

// delivered is the number of contexts that a hook has counted, and when it printed the last count.
func (op *operator) delivered() (contexts int, at time.Time) {
	for _, r := range op.Records() {
		var n int
		if _, err := fmt.Sscanf(r.Fields["msg"], "%d", &n); err == nil && r.Fields["output"] == "stdout" {
			contexts, at = contexts+n, r.At
		}
	}
	return contexts, at
}

// bareStorm returns the CPU time in seconds that a bare program uses for the same, and how often it started the script. It
// stores no objects, logs nothing, and reads no results.
func (b *bench) bareStorm(namespace string, updates int, write func()) (used, runs float64) {
	program := b.startBare("storm", b.cluster.Kubeconfig, namespace, filepath.Join(b.hooks("#!/bin/sh\n"+stormCommand+"\n"), "hook-00.sh"))
	defer program.end()
	before := b.cpu(program.cmd.Process.Pid)
	write()
	for contexts := 0; contexts < updates; runs++ {
		n, err := strconv.Atoi(program.line(b))
		if err != nil {
			b.Fatal(err)
		}
		contexts += n
	}
	return b.cpu(program.cmd.Process.Pid) - before, runs
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
