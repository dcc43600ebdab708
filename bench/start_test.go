package bench

import (
	"fmt"
	"time"
)

const (
	full     = ""
	filtered = "  keepFullObjectsInMemory: false\n  jqFilter: '.metadata.labels'\n"
)

// snapshotHook sees all objects of a kind in a namespace.
func snapshotHook(kind, namespace, more string) string {
	return hook(fmt.Sprintf("configVersion: v1\nkubernetes:\n- apiVersion: v1\n  kind: %s\n  "+
		"namespace: {nameSelector: {matchNames: [%s]}}\n%s", kind, namespace, more),
		`echo "run $(wc -c < $BINDING_CONTEXT_PATH)"`)
}

func startFull(b *bench) {
	namespace := b.fill("ConfigMap", 10_000)
	s := b.measureStart(namespace, "configmaps", full, 5)
	first, resident, peak := b.measurePeerStart(namespace, 5)
	b.add("first run after start", "s", s.first...).against("bare list", s.list...).times(1.6, 0)
	b.add("resident", "MiB", s.resident...).against("JSON", s.json).times(2.2, 25)
	b.add("resident a minute later", "MiB", s.minute).against("JSON", s.json).times(2.2, 25)
	b.add("peak", "MiB", s.peak...).against("JSON", s.json).times(3, 30)
	b.add("resident, beside controller-runtime", "MiB", s.resident...).against("the operator of bench/peers", resident...).times(1, 0)
	b.add("peak, beside controller-runtime", "MiB", s.peak...).against("the operator of bench/peers", peak...).times(1, 0)
	b.add("first run, beside controller-runtime", "s", s.first...).against("its first Reconcile", first...)
}

func startFilter(b *bench) {
	s := b.measureStart(b.fill("ConfigMap", 10_000), "configmaps", filtered, 5)
	b.add("first run after start", "s", s.first...).against("bare list", s.list...).times(1.8, 0)
	b.add("resident", "MiB", s.resident...).most(40)
	b.add("resident a minute later", "MiB", s.minute).most(40)
	b.add("peak", "MiB", s.peak...).most(70)
}

func startFilter100k(b *bench) {
	s := b.measureStart(b.fill("ConfigMap", 100_000), "configmaps", filtered, 3)
	b.add("first run after start", "s", s.first...).against("bare list", s.list...).times(2, 0)
	b.add("resident", "MiB", s.resident...).most(120)
	b.add("peak", "MiB", s.peak...).most(180)
}

func startFull100k(b *bench) {
	s := b.measureStart(b.fill("ConfigMap", 100_000), "configmaps", full, 3)
	b.add("first run after start", "s", s.first...).against("bare list", s.list...).times(2, 0)
	b.add("resident", "MiB", s.resident...).against("JSON", s.json).times(2.2, 50)
	b.add("peak", "MiB", s.peak...)
}

// starts are several starts, each beside a bare list.
type starts struct {
	// seconds
	first, list []float64
	// MiB
	resident, peak []float64
	// minute is resident memory of the last start, a minute later.
	minute, json float64
}

// measureStart starts an operator some times, in turns with a bare list. The time is that from the start of the process
// to the first line of the hook.
func (b *bench) measureStart(namespace, resource, binding string, times int) (s starts) {
	kind := map[string]string{"configmaps": "ConfigMap", "pods": "Pod", "secrets": "Secret", "events": "Event"}[resource]
	dir := b.hooks(snapshotHook(kind, namespace, binding))
	b.bareList("/api/v1/namespaces/" + namespace + "/" + resource) // the API server warms up
	for i := range times {
		seconds, mib := b.bareList("/api/v1/namespaces/" + namespace + "/" + resource)
		s.list, s.json = append(s.list, seconds), mib
		op := b.start(dir)
		first := op.untilCount("run ", 1)
		s.first = append(s.first, first.At.Sub(op.Started).Seconds())
		op.untilCount("Unlock kubernetes.Event tasks", 1)
		enabled := op.untilCount("Kubernetes bindings for hook are enabled", 1).At.Sub(op.untilCount("Enable kubernetes binding for hook", 1).At)
		cpu := op.cpu()
		time.Sleep(settle)
		s.resident, s.peak = append(s.resident, op.resident()), append(s.peak, op.peak())
		b.progress("%d of %d: %.2f s, of it %.2f s for the list (bare list %.2f s), CPU %.2f s, resident %.0f MiB, peak %.0f MiB, JSON %.0f MiB",
			i+1, times,
			s.first[i], enabled.Seconds(), seconds, cpu, s.resident[i], s.peak[i], mib)
		if i == times-1 {
			time.Sleep(time.Minute)
			s.minute = op.resident()
		}
		op.stop()
	}
	return s
}

// measurePeerStart starts the operator of bench/peers some times: seconds until its first Reconcile, which follows the initial list,
// and its memory when it has reconciled all objects.
func (b *bench) measurePeerStart(namespace string, times int) (first, resident, peak []float64) {
	for i := range times {
		p, line := b.startPeer(namespace)
		first = append(first, line.at.Sub(p.started).Seconds())
		time.Sleep(settle)
		resident, peak = append(resident, p.memory("VmRSS")), append(peak, p.memory("VmHWM"))
		b.progress("%d of %d with controller-runtime: %.2f s, resident %.0f MiB, peak %.0f MiB", i+1, times, first[i], resident[i], peak[i])
		p.stop()
	}
	return first, resident, peak
}
