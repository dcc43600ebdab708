package bench

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/bench/objects"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

const (
	laneObjects = 1000
	laneRun     = 100 * time.Millisecond
	laneWidth   = 16
)

// keyed is a hook with a keyed queue for the ConfigMaps of a namespace that runs commands. They may print.
func keyed(namespace, retry string, concurrency int, commands string) string {
	return hook(fmt.Sprintf("{configVersion: v1, settings: {contextsPerRun: 1%s}, kubernetes: [{name: all, kind: ConfigMap, "+
		"executeHookOnEvent: [Modified], executeHookOnSynchronization: false, "+
		"namespace: {nameSelector: {matchNames: [%s]}}, queue: {name: lanes, key: object, concurrency: %d}}]}", retry, namespace, concurrency),
		commands)
}

// act runs a command of the program for a running operator.
func (op *operator) act(args ...string) string {
	out, err := exec.Command(op.b.binary(), append(args, "--debug-unix-socket", op.Socket)...).CombinedOutput()
	if err != nil {
		op.b.Fatalf("shell-operator %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return string(out)
}

// lanes changes 1,000 objects while their queue is paused, and lets 16 runs of 0.1 s at a time go over them: first all well, then with 10
// objects that always fail.
func lanes(b *bench) {
	const times = 3
	const ideal = laneObjects * laneRun / laneWidth
	var well, failing []float64
	fails := map[int]string{10: `grep -q '"name":"object-[0-9]"' $BINDING_CONTEXT_PATH && exit 1; `}
	for range times {
		for _, broken := range []int{0, 10} {
			namespace := b.laneObjects(laneObjects)
			op := b.start(b.hooks(keyed(namespace, ", retry: {minDelay: 1s}", laneWidth,
				fmt.Sprintf("%sexec sleep %.1f", fails[broken], laneRun.Seconds()))))
			op.untilCount("Kubernetes bindings for hook are enabled successfully", 1)
			op.act("queue", "pause", "lanes")
			b.changeAll(namespace, laneObjects)
			op.untilCount("queue task", laneObjects)
			started := time.Now()
			op.act("queue", "resume", "lanes")
			op.untilCount("Hook executed successfully", laneObjects-broken)
			seconds := time.Since(started).Seconds()
			if broken == 0 {
				well = append(well, seconds)
			} else {
				failing = append(failing, seconds)
			}
			b.progress("%d objects, %d of them fail: %.2f s", laneObjects, broken, seconds)
			op.stop()
		}
	}
	b.add("1,000 changes of 1,000 objects, 16 runs of 0.1 s at a time", "s", well...).against("1,000 × 0.1 s / 16", ideal.Seconds()).
		times(1.15, 0)
	b.add("the same with 10 objects that always fail", "s", failing...).against("without failures", well...).times(1.10, 0)
}

// laneObjects makes objects object-0, object-1 and so on.
func (b *bench) laneObjects(n int) (namespace string) {
	namespace = b.cluster.Namespace(b.T)
	b.each(8, n, func(client *kubernetes.Clientset, i int) error {
		o := objects.ConfigMap(i, 256)
		o.Name = fmt.Sprint("object-", i)
		_, err := client.CoreV1().ConfigMaps(namespace).Create(context.Background(), o, metav1.CreateOptions{})
		return err
	})
	return namespace
}

// changeAll changes each object once.
func (b *bench) changeAll(namespace string, n int) {
	b.each(8, n, func(client *kubernetes.Clientset, i int) error { return b.change(client, namespace, i, "1") })
}

func (b *bench) change(client *kubernetes.Clientset, namespace string, i int, round string) error {
	o := objects.ConfigMap(i, 256)
	o.Name = fmt.Sprint("object-", i)
	o.Data["round"] = round
	_, err := client.CoreV1().ConfigMaps(namespace).Update(context.Background(), o, metav1.UpdateOptions{})
	return err
}

// lanesHot changes one object 50 times a second and 500 others once at random times within 10 s; 4 runs of 20 ms at a time.
func lanesHot(b *bench) {
	const calm, seconds, rate = 500, 10, 50
	namespace := b.laneObjects(calm + 1)
	op := b.start(b.hooks(keyed(namespace, "", 4,
		`sleep 0.02; jq -r '.[0].object | "delivered \(.metadata.name) \(.data.round)"' $BINDING_CONTEXT_PATH`)))
	op.untilCount("Kubernetes bindings for hook are enabled successfully", 1)
	var mu sync.Mutex
	written := map[string]time.Time{}
	at := make([]time.Duration, calm)
	random := rand.New(rand.NewPCG(1, 2))
	for i := range at {
		at[i] = time.Duration(random.Int64N(int64(seconds * time.Second)))
	}
	order := slices.SortedFunc(slices.Values(indices(calm)), func(a, c int) int { return int(at[a] - at[c]) })
	started := time.Now()
	var hot sync.WaitGroup
	hot.Go(func() {
		client := b.client()
		ticks := time.NewTicker(time.Second / rate)
		defer ticks.Stop()
		for n := range seconds * rate {
			<-ticks.C
			if err := b.change(client, namespace, calm, fmt.Sprint(n)); err != nil {
				b.Error(err)
			}
		}
	})
	b.each(4, calm, func(client *kubernetes.Clientset, n int) error {
		i := order[n]
		time.Sleep(time.Until(started.Add(at[i])))
		err := b.change(client, namespace, i, "calm")
		mu.Lock()
		defer mu.Unlock()
		written[fmt.Sprint("object-", i)] = time.Now()
		return err
	})
	hot.Wait()
	waits := map[string]float64{}
	op.Until("all calm changes are delivered", func(records []testenv.Record) bool {
		for _, r := range records {
			var name, round string
			if _, err := fmt.Sscanf(r.Fields["msg"], "delivered %s %s", &name, &round); err == nil && round == "calm" {
				waits[name] = r.At.Sub(written[name]).Seconds()
			}
		}
		return len(waits) == calm
	})
	var all []float64
	for _, w := range waits {
		all = append(all, max(0, w))
	}
	slices.Sort(all)
	b.add("a change of a calm object until its run has ended, 99th percentile", "s", percentile(all, 99)).most(1)
	b.add("the same, median", "s", percentile(all, 50))
	op.stop()
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}
