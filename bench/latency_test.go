package bench

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/bench/objects"
)

// latency creates objects one at a time, in turns for an idle operator, for the bare program and for the operator of bench/peers,
// and measures from before the request to the first line of the script, or of Reconcile.
func latency(b *bench) {
	const times = 200
	client := b.client()
	namespace, other, third := b.cluster.Namespace(b.T), b.cluster.Namespace(b.T), b.cluster.Namespace(b.T)
	op := b.start(
		b.hooks(hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{kind: ConfigMap, executeHookOnEvent: [Added], "+
			"namespace: {nameSelector: {matchNames: [%s]}}}]}", namespace), "echo ran")))
	op.untilCount("ran", 1)
	op.untilCount("Unlock kubernetes.Event tasks", 1)
	script := filepath.Join(b.hooks("#!/bin/sh\necho ran\n"), "hook-00.sh")
	program := b.startBare("latency", b.cluster.Kubeconfig, other, script)
	peer, _ := b.startPeer(third)
	create := func(namespace string, i int) time.Time {
		started := time.Now()
		if _, err := client.CoreV1().ConfigMaps(namespace).Create(b.Context(), objects.ConfigMap(i, 200), metav1.CreateOptions{}); err != nil {
			b.Fatal(err)
		}
		return started
	}
	var delays, bare, peers []float64
	for i := range times {
		started := create(namespace, i)
		delays = append(delays, milliseconds(op.untilCount("ran", i+2).At.Sub(started)))
		// The next event finds the operator idle again.
		op.untilCount("Hook executed successfully", i+2)

		started = create(other, i)
		program.line(b)
		bare = append(bare, milliseconds(time.Since(started)))

		started = create(third, i)
		peers = append(peers, milliseconds(peer.until(objects.ConfigMap(i, 0).Name, "").at.Sub(started)))
	}
	s := spreadOf(delays)
	b.add("create → first line, median of 200", "ms", delays...).against("watch, fork and exec by a bare program", bare...).times(1.5, 0)
	b.add("the same, absolutely", "ms", delays...).most(8)
	b.add("create → Reconcile in Go with controller-runtime", "ms", peers...)
	b.add("99th percentile", "ms", percentile(s.all, 99)).against("bare program", percentile(spreadOf(bare).all, 99)).most(25)
}

// idle measures the CPU time of an operator that has nothing to do.
func idle(b *bench) {
	namespace := b.cluster.Namespace(b.T)
	var texts []string
	for i := range 20 {
		texts = append(texts,
			hook(fmt.Sprintf("{configVersion: v1, schedule: [{crontab: '0 0 1 1 *', queue: q%d}], kubernetes: [{kind: ConfigMap, queue: q%d, "+
				"namespace: {nameSelector: {matchNames: [%s]}}}]}", i, i, namespace), "echo ran"))
	}
	op := b.start(b.hooks(texts...))
	op.untilCount("Unlock kubernetes.Event tasks", 20)
	time.Sleep(settle)
	before := op.cpu()
	time.Sleep(time.Minute)
	b.add("CPU time in 60 s", "s", op.cpu()-before).most(0.05)
	b.add("resident", "MiB", op.resident())
}

// team is what one more operator costs: three hooks for the objects of one namespace.
func team(b *bench) {
	var texts []string
	for _, kind := range []string{"ConfigMap", "Pod", "Secret"} {
		texts = append(texts, snapshotHook(kind, b.fill("ConfigMap", 100), filtered))
	}
	requests := func(op *operator) (sum float64) {
		for _, m := range regexp.MustCompile(`(?m)^shell_operator_kubernetes_client_request_result_total\S* (\d+)$`).
			FindAllStringSubmatch(op.Page("/metrics"), -1) {
			n, err := strconv.ParseFloat(m[1], 64)
			if err != nil {
				b.Fatal(err)
			}
			sum += n
		}
		return sum
	}
	var own, resident, first, later []float64
	for range 3 {
		op := b.start(b.hooks(texts...))
		op.untilCount("Unlock kubernetes.Event tasks", 3)
		time.Sleep(settle)
		before := requests(op)
		time.Sleep(time.Minute)
		own, resident = append(own, op.memory("RssAnon")), append(resident, op.resident())
		first, later = append(first, before), append(later, requests(op)-before)
		op.stop()
	}
	b.add("memory with three hooks for one namespace", "MiB", own...).most(12)
	b.add("resident, with the pages of the program, which operators of a node share", "MiB", resident...).most(30)
	b.add("its requests of a start", "", first...)
	b.add("its requests in the 60 s after that", "", later...)
}
