package bench

import "fmt"

// record measures what recordings cost an operator whose runs succeed, in turns with one that keeps none.
func record(b *bench) {
	const times, objectCount = 7, 1000
	namespace := b.fill("ConfigMap", objectCount)
	dir := b.hooks(hook(fmt.Sprintf("{configVersion: v1, settings: {contextsPerRun: 1}, kubernetes: [{kind: ConfigMap, apiVersion: v1, initialObjects: added, executeHookOnEvent: [Added], namespace: {nameSelector: {matchNames: [%s]}}}]}", namespace),
		"exit 0"))
	type samples map[string][]float64
	perRun, cpu, memory := samples{}, samples{}, samples{}
	for n := range times + 1 {
		for _, mode := range []string{"none", "failures"} {
			op := b.start(dir, "--record", mode)
			first := op.untilCount("Execute hook", 1)
			last := op.untilCount("Hook executed successfully", objectCount)
			if n > 0 { // the first pair fills the caches
				perRun[mode] = append(perRun[mode], milliseconds(last.At.Sub(first.At))/objectCount)
				cpu[mode] = append(cpu[mode], op.cpu()*1000/objectCount)
				memory[mode] = append(memory[mode], op.peak())
			}
			op.stop()
		}
	}
	for _, f := range []struct {
		what, unit string
		measured   samples
	}{{"time of a run", "ms", perRun}, {"operator's CPU time per run", "ms", cpu}, {"peak memory", "MiB", memory}} {
		b.add(f.what, f.unit, f.measured["failures"]...).against("--record=none", f.measured["none"]...).times(1.05, 0)
	}
}
