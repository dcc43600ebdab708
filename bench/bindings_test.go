package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/bench/objects"
)

// tenFilters compares ten hooks with one.
func tenFilters(b *bench) {
	const times = 5
	namespace := b.fill("ConfigMap", 10_000)
	binding := func(filter string) string {
		return "  keepFullObjectsInMemory: false\n  jqFilter: '" + filter + "'\n"
	}
	var texts []string
	for _, filter := range objects.Filters {
		texts = append(texts, snapshotHook("ConfigMap", namespace, binding(filter)))
	}
	ten := b.hooks(texts...)
	one := b.hooks(snapshotHook("ConfigMap", namespace, binding(objects.Filters[len(objects.Filters)-1])))
	measure := func(dir string, n int) (seconds, resident, peak, watches float64) {
		before := b.watches("configmaps")
		op := b.start(dir)
		last := op.untilCount("Unlock kubernetes.Event tasks", n)
		time.Sleep(settle)
		watches = b.watches("configmaps") - before
		resident, peak = op.resident(), op.peak()
		op.stop()
		return last.At.Sub(op.Started).Seconds(), resident, peak, watches
	}
	var took, tookOne, resident, residentOne, peak, watches []float64
	for range times {
		seconds, mib, _, _ := measure(one, 1)
		tookOne, residentOne = append(tookOne, seconds), append(residentOne, mib)
		seconds, mib, high, open := measure(ten, 10)
		took, resident, peak, watches = append(took, seconds), append(resident, mib), append(peak, high), append(watches, open)
		b.progress("ten hooks: %.2f s, %.0f MiB, peak %.0f MiB; one hook: %.2f s, %.0f MiB", seconds, mib, high, tookOne[len(tookOne)-1],
			residentOne[len(residentOne)-1])
	}
	b.add("all Synchronizations after start", "s", took...).against("one hook", tookOne...).times(1.7, 0)
	b.add("resident", "MiB", resident...).against("one hook", residentOne...).times(1, 20)
	b.add("peak", "MiB", peak...)
	b.add("watches", "", watches...).most(1)
}

// bigContext lets a hook see 10,000 full objects in each of 100 runs, in turns with writing the same bytes to a file and
// starting the same script.
func bigContext(b *bench) {
	const warmUp, times = 100, 100
	client := b.client()
	namespace, trigger := b.fill("ConfigMap", 10_000), b.cluster.Namespace(b.T)
	kept := filepath.Join(b.TempDir(), "context.json")
	op := b.start(
		b.hooks(hook(fmt.Sprintf("{configVersion: v1, kubernetes: [{name: all, kind: ConfigMap, executeHookOnSynchronization: false, "+
			"executeHookOnEvent: [], namespace: {nameSelector: {matchNames: [%s]}}},"+
			" {kind: ConfigMap, executeHookOnSynchronization: false, executeHookOnEvent: [Modified], includeSnapshotsFrom: [all], "+
			"namespace: {nameSelector: {matchNames: [%s]}}}]}", namespace, trigger),
			"echo ran\n[ -e "+kept+" ] || cp $BINDING_CONTEXT_PATH "+kept)))
	op.untilCount("Unlock kubernetes.Event tasks", 2)
	object := objects.ConfigMap(0, 200)
	if _, err := client.CoreV1().ConfigMaps(trigger).Create(b.Context(), object, metav1.CreateOptions{}); err != nil {
		b.Fatal(err)
	}
	script := filepath.Join(b.hooks("#!/bin/sh\necho ran\n"), "hook-00.sh")
	var took, bare []float64
	var content []byte
	var early float64
	for i := range warmUp + times {
		object.Data["round"] = fmt.Sprint(i)
		if _, err := client.CoreV1().ConfigMaps(trigger).Update(b.Context(), object, metav1.UpdateOptions{}); err != nil {
			b.Fatal(err)
		}
		executed := op.untilCount("Execute hook", i+1).At
		ran := op.untilCount("ran", i+1).At
		op.untilCount("Hook executed successfully", i+1)
		if content == nil {
			var err error
			if content, err = os.ReadFile(kept); err != nil {
				b.Fatal(err)
			}
			b.progress("the context has %.1f MiB", float64(len(content))/(1<<20))
		}
		if i == warmUp {
			op.profile("heap-early", "heap?gc=1")
		}
		if i < warmUp {
			early = op.resident()
			continue
		}
		took, bare = append(took, milliseconds(ran.Sub(executed))), append(bare, b.bareContext(content, script))
	}
	b.add("start of the run → first line", "ms", took...).against("writing the same bytes, fork and exec", bare...).times(1.3, 0)
	b.add("resident after 200 runs", "MiB", op.resident()).against("after 100 runs", early).times(1, 5)
	b.add("peak", "MiB", op.peak())
}

// bareContext writes bytes to a new file and starts a script.
func (b *bench) bareContext(content []byte, script string) (ms float64) {
	b.Helper()
	path := filepath.Join(b.runDir(), "bare.json")
	defer os.Remove(path)
	started := time.Now()
	if err := os.WriteFile(path, content, 0o600); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.Command(script).Output(); err != nil || string(out) != "ran\n" {
		b.Fatalf("%s: %q %v", script, out, err)
	}
	return milliseconds(time.Since(started))
}

// kinds measures what objects of real life cost, and what managedFields cost of it.
func kinds(b *bench) {
	for _, kind := range []struct{ kind, resource, what, binding string }{
		{"Pod", "pods", "Pods, full", full},
		{"Pod", "pods", "Pods, full, keepManagedFields: false", "  keepManagedFields: false\n"},
		{"Pod", "pods", "Pods, filter, no full objects",
			"  keepFullObjectsInMemory: false\n  jqFilter: '{labels: .metadata.labels, node: .spec.nodeName, phase: .status.phase}'\n"},
		{"Secret", "secrets", "Secrets, full", full},
		{"Event", "events", "Events, full", full},
	} {
		b.progress("%s", kind.what)
		s := b.measureStart(b.fill(kind.kind, 10_000), kind.resource, kind.binding, 2)
		b.add(kind.what+": first run after start", "s", s.first...).against("bare list", s.list...)
		b.add(kind.what+": resident", "MiB", s.resident...).against("JSON", s.json)
		b.add(kind.what+": peak", "MiB", s.peak...)
	}
}
