package bench

import (
	"fmt"
	"slices"
	"time"
)

// shardObjects is how many objects four replicas share.
const shardObjects = 100_000

// shards measures one operator with all objects, and four at once that share them, each above an operator without objects.
func shards(b *bench) {
	namespace := b.fill("ConfigMap", shardObjects)
	share := func(by, more string) string {
		return b.hooks(hook(fmt.Sprintf("configVersion: v1\nsettings: {shardBy: %s}\nkubernetes:\n- apiVersion: v1\n  kind: ConfigMap\n  "+
			"namespace: {nameSelector: {matchNames: [%s]}}\n%s%s", by, namespace, filtered, more), "echo run"))
	}
	var base, alone, four shared
	for round := range 3 {
		base.add(b.startShared(share("object", "  labelSelector: {matchLabels: {is: nowhere}}\n"), 1))
		alone.add(b.startShared(share("object", ""), 1))
		four.add(b.startShared(share("object", ""), 4))
		b.progress("%d of 3: CPU %.2f s alone and %.2f s each of four, resident %.0f and %.0f MiB, without objects %.2f s and %.0f MiB", round+1,
			middle(alone.cpu), middle(four.cpu), middle(alone.resident), middle(four.resident), middle(base.cpu), middle(base.resident))
	}
	above := func(values, base []float64) (above []float64) {
		for _, v := range values {
			above = append(above, v-middle(base))
		}
		return above
	}
	b.add("resident above base, each of four", "MiB", above(four.resident, base.resident)...).
		against("one alone", above(alone.resident, base.resident)...).times(0.32, 0)
	b.add("CPU until the first run above base, each of four", "s", above(four.cpu, base.cpu)...).
		against("one alone", above(alone.cpu, base.cpu)...).times(0.32, 0)
}

// shared are figures of operators that run at the same time.
type shared struct{ cpu, resident []float64 }

func (s *shared) add(cpu, resident []float64) {
	s.cpu, s.resident = append(s.cpu, cpu...), append(s.resident, resident...)
}

// startShared starts operators that share the objects of a hook, and returns the CPU time of each until its first run, and its memory later.
func (b *bench) startShared(dir string, n int) (cpu, resident []float64) {
	var flags []string
	if n > 1 {
		flags = []string{"--namespace", b.cluster.Namespace(b.T), "--shards", fmt.Sprint(n)}
	}
	var all []*operator
	for range n {
		all = append(all, b.start(dir, flags...))
	}
	for _, op := range all {
		op.untilCount("run", 1)
		op.untilCount("Unlock kubernetes.Event tasks", 1)
		cpu = append(cpu, op.cpu())
	}
	time.Sleep(settle)
	for _, op := range all {
		resident = append(resident, op.resident())
	}
	for _, op := range all {
		op.stop()
	}
	return cpu, resident
}

// middle is the median.
func middle(values []float64) float64 { return percentile(slices.Sorted(slices.Values(values)), 50) }
