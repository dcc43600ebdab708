package bench

import "fmt"

// record measures what recordings cost an operator whose runs succeed, in turns with one that keeps none.
func record(b *bench) {
	b.recorded("", "exit 0", "Hook executed successfully", 1.05, true)
}

// recordFailures measures the same if all runs fail, eight at a time. Every failed run is one to record; of several at a time, one is.
func recordFailures(b *bench) {
	b.recorded(", allowFailure: true, queue: {name: lanes, key: object, concurrency: 8}", "echo cannot reach the database; exit 1",
		"Hook failed, but allowed to fail", 1.15, false)
}

// recorded compares --record=failures with none over 1,000 runs, one for each object, that end with a message.
func (b *bench) recorded(settings, script, message string, most float64, peak bool) {
	const times, objectCount = 7, 1000
	namespace := b.fill("ConfigMap", objectCount)
	dir := b.hooks(hook(fmt.Sprintf("{configVersion: v1, settings: {contextsPerRun: 1}, kubernetes: [{kind: ConfigMap, apiVersion: v1, "+
		"initialObjects: added, executeHookOnEvent: [Added]%s, namespace: {nameSelector: {matchNames: [%s]}}}]}", settings, namespace),
		script))
	type samples map[string][]float64
	perRun, cpu, memory := samples{}, samples{}, samples{}
	for n := range times + 1 {
		for _, mode := range []string{"none", "failures"} {
			op := b.start(dir, "--record", mode)
			first := op.untilCount("Execute hook", 1)
			last := op.untilCount(message, objectCount)
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
		most       float64
	}{{"time of a run", "ms", perRun, most}, {"operator's CPU time per run", "ms", cpu, most}, {"peak memory", "MiB", memory, 1.05}} {
		figure := b.add(f.what, f.unit, f.measured["failures"]...).against("--record=none", f.measured["none"]...)
		if f.what != "peak memory" || peak {
			figure.times(f.most, 0)
		}
	}
}
