package bench

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const (
	// shardObjects is how many objects four replicas share, in as many namespaces if they share these.
	shardObjects    = 100_000
	shardNamespaces = 300
)

// ownControlPlane is one whose API server sends each replica its part. It ends with the scenario, and the objects with it.
func (b *bench) ownControlPlane() {
	b.cluster = testenv.Own(b.T, "--feature-gates=ShardedListAndWatch=true")
}

// shardsByObject lets the API server send each replica only the objects of its shard.
func shardsByObject(b *bench) {
	b.ownControlPlane()
	namespace := b.fill("ConfigMap", shardObjects)
	alone, four := b.compareShares("object", fmt.Sprintf("  namespace: {nameSelector: {matchNames: [%s]}}\n", namespace))
	b.addShare("received", "MiB", four.received, alone.received, 0.27)
	b.addShare("resident above base", "MiB", four.resident, alone.resident, 0.32)
	b.addShare("CPU until the first run above base", "s", four.cpu, alone.cpu, 0.32)
}

// shardsByNamespace lets each replica receive all objects, of which it keeps those of its namespaces.
func shardsByNamespace(b *bench) {
	b.ownControlPlane()
	b.progress("makes %d objects in %d namespaces", shardObjects, shardNamespaces)
	name := func(i int) string { return fmt.Sprint("team-", i%shardNamespaces) }
	b.each(16, shardNamespaces, func(client *kubernetes.Clientset, i int) error {
		_, err := client.CoreV1().Namespaces().Create(context.Background(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name(i)}},
			metav1.CreateOptions{})
		return err
	})
	b.each(16, shardObjects, func(client *kubernetes.Clientset, i int) error {
		return create(context.Background(), client, "ConfigMap", name(i), i)
	})
	alone, four := b.compareShares("namespace", "")
	b.addShare("received", "MiB", four.received, alone.received, 0)
	b.addShare("resident above base", "MiB", four.resident, alone.resident, 0.40)
	b.addShare("CPU until the first run above base", "s", four.cpu, alone.cpu, 0.85)
}

func (b *bench) addShare(what, unit string, four, alone []float64, most float64) {
	f := b.add(what+", each of four", unit, four...).against("one alone", alone...)
	if most != 0 {
		f.times(most, 0)
	}
}

// compareShares measures one operator with all objects that a binding selects, and four at once that share them, each above an operator
// whose binding selects none.
func (b *bench) compareShares(by, selection string) (alone, four shared) {
	share := func(selection string) string {
		return b.hooks(hook(fmt.Sprintf("configVersion: v1\nsettings: {shardBy: %s}\nkubernetes:\n- apiVersion: v1\n  kind: ConfigMap\n%s%s", by,
			selection, filtered), "echo delivered"))
	}
	none, all := share(selection+"  labelSelector: {matchLabels: {is: nowhere}}\n"), share(selection)
	var base shared
	for round := range 3 {
		base.add(b.startShared(none, 1))
		alone.add(b.startShared(all, 1))
		four.add(b.startShared(all, 4))
		b.progress("%d of 3: without objects %s, alone %s, each of four %s", round+1, base, alone, four)
	}
	return alone.above(base), four.above(base)
}

// shared are figures of operators that run at the same time: what each has used until its first run, in s and MiB, and its memory later.
type shared struct{ cpu, received, resident []float64 }

func (s *shared) add(more shared) {
	s.cpu, s.received = append(s.cpu, more.cpu...), append(s.received, more.received...)
	s.resident = append(s.resident, more.resident...)
}

func (s shared) String() string {
	return fmt.Sprintf("CPU %.2f s, received %.1f MiB, resident %.0f MiB", middle(s.cpu), middle(s.received), middle(s.resident))
}

// above takes the medians of base away. What an operator without objects receives is its own affair.
func (s shared) above(base shared) shared {
	less := func(values []float64, base float64) (above []float64) {
		for _, v := range values {
			above = append(above, v-base)
		}
		return above
	}
	return shared{cpu: less(s.cpu, middle(base.cpu)), received: s.received, resident: less(s.resident, middle(base.resident))}
}

// startShared starts operators that share the objects of a hook.
func (b *bench) startShared(dir string, n int) (s shared) {
	var all []*operator
	var lines []*testenv.Proxy
	shards := b.sharding(n)
	for range n {
		line, kubeconfig := testenv.NewProxy(b.T, b.cluster, b.cluster.Kubeconfig)
		lines = append(lines, line)
		all = append(all, b.start(dir, append([]string{"--kube-config", kubeconfig}, shards...)...))
	}
	for i, op := range all {
		op.untilCount("delivered", 1)
		op.untilCount("Unlock kubernetes.Event tasks", 1)
		s.cpu, s.received = append(s.cpu, op.cpu()), append(s.received, float64(lines[i].Received())/(1<<20))
	}
	time.Sleep(settle)
	for _, op := range all {
		s.resident = append(s.resident, op.resident())
	}
	for _, op := range all {
		op.stop()
	}
	return s
}

// sharding are the flags of each of n operators that share their work, none of one alone.
func (b *bench) sharding(n int) []string {
	if n == 1 {
		return nil
	}
	return []string{"--namespace", b.cluster.Namespace(b.T), "--shards", fmt.Sprint(n)}
}

// middle is the median.
func middle(values []float64) float64 { return percentile(slices.Sorted(slices.Values(values)), 50) }

// shardsRuns counts the runs of operators that have a backlog: one alone in turns with four that share the objects.
func shardsRuns(b *bench) {
	const (
		window = 10 * time.Second
		run    = 50 * time.Millisecond
		// backlog is more than one replica can run meanwhile.
		backlog = int(window/run) * 3 / 2
	)
	// rate returns the runs per second of n operators.
	rate := func(n int) float64 {
		namespace := b.laneObjects(n * backlog)
		dir := b.hooks(hook(fmt.Sprintf("{configVersion: v1, settings: {shardBy: object, contextsPerRun: 1}, kubernetes: [{kind: ConfigMap, "+
			"executeHookOnEvent: [Modified], executeHookOnSynchronization: false, namespace: {nameSelector: {matchNames: [%s]}}, queue: one}]}",
			namespace), fmt.Sprintf("exec sleep %.2f", run.Seconds())))
		var all []*operator
		shards := b.sharding(n)
		for range n {
			all = append(all, b.start(dir, shards...))
		}
		for _, op := range all {
			op.untilCount("Kubernetes bindings for hook are enabled successfully", 1)
			if n > 1 {
				op.untilCount("This replica serves a shard", 1)
			}
			op.act("queue", "pause", "one")
		}
		b.changeAll(namespace, n*backlog)
		queued := func() (n int) {
			for _, op := range all {
				n += op.Count("queue task")
			}
			return n
		}
		for queued() < n*backlog {
			time.Sleep(time.Second)
		}
		for _, op := range all {
			op.act("queue", "resume", "one")
		}
		from := time.Now()
		time.Sleep(window + time.Second) // records are read a little later
		runs := 0
		for _, op := range all {
			ran := 0
			for _, r := range op.Records() {
				if r.Has("Hook executed successfully") && r.At.After(from) && !r.At.After(from.Add(window)) {
					ran++
				}
			}
			if waited := op.Count("queue task"); ran == 0 || op.Count("Hook executed successfully") >= waited {
				b.Fatalf("a replica had %d changes to run for, and has run %d times: there was no backlog all the time", waited, ran)
			}
			runs += ran
		}
		for _, op := range all {
			op.stop()
		}
		return float64(runs) / window.Seconds()
	}
	var alone, four []float64 // milliseconds for each run
	for round := range 3 {
		alone, four = append(alone, 1000/rate(1)), append(four, 1000/rate(4))
		b.progress("%d of 3: %.1f runs a second alone, %.1f of four", round+1, 1000/alone[round], 1000/four[round])
	}
	b.add("wall time for each run, four replicas", "ms", four...).against("one alone", alone...).times(0.263, 0) // 1/3.8
}
