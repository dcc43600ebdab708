package chaos

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// resident returns the memory of a process in MiB: now, or at its peak.
func resident(t testing.TB, op *testenv.Operator, field string) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", op.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s in %s", field, text)
	}
	n, _ := strconv.ParseFloat(string(found[1]), 64)
	return n / 1024
}

const (
	residentNow  = "VmRSS"
	residentPeak = "VmHWM"
)

// figure prints a figure, and fails the test if it is more than it may be; 0 is no limit.
func figure(t testing.TB, what string, got, limit float64, unit string) {
	t.Helper()
	verdict := ""
	if limit > 0 {
		verdict = fmt.Sprintf("(at most %.1f) ok", limit)
		if got > limit {
			verdict = fmt.Sprintf("(at most %.1f) TOO MUCH", limit)
			t.Fail()
		}
	}
	fmt.Printf("  %-66s %9.1f %-4s %s\n", what, got, unit, verdict)
}

// inParallel does something n times, several at a time.
func inParallel(t *testing.T, n int, do func(i int) error) {
	t.Helper()
	var next atomic.Int64
	var working sync.WaitGroup
	for range 24 {
		working.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && !t.Failed(); i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					t.Error(err)
				}
			}
		})
	}
	working.Wait()
}

func count(records []testenv.Record, message string, fields ...string) (n int) {
	for _, r := range records {
		if r.Has(message, fields...) {
			n++
		}
	}
	return n
}

// 100,000 objects: the first run, memory at rest, and that a change is still delivered immediately.
func TestManyObjects(t *testing.T) {
	wanted(t, "100k-objects")
	cluster := testenv.Own(t)
	namespace := cluster.Namespace(t)
	client := clientOf(t, cluster)
	const n = 100_000
	started := time.Now()
	inParallel(t, n, func(i int) error {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("map-%06d", i)}, Data: map[string]string{"a": strings.Repeat("x", 200)},
		}, metav1.CreateOptions{})
		return err
	})
	figure(t, "100,000 ConfigMaps: to make them", time.Since(started).Seconds(), 0, "s")
	op := simple(t, cluster, map[string]string{"hook.sh": hookText(fmt.Sprintf(`
configVersion: v1
kubernetes:
- {kind: ConfigMap, keepFullObjectsInMemory: false, jqFilter: .data.a, namespace: {nameSelector: {matchNames: [%s]}}}`, namespace),
		`echo "run $(tr -cd '{' < $BINDING_CONTEXT_PATH | wc -c)"`)})
	first := op.UntilLog("run ")
	figure(t, "100,000 ConfigMaps: first run after the start", first.At.Sub(op.Started).Seconds(), 60, "s")
	// One object more is the API server's certificate, and one brace is the context's.
	if want := fmt.Sprint("run ", n+2); first.Fields["msg"] != want {
		t.Errorf("%s, want %s", first.Fields["msg"], want)
	}
	op.UntilLog("Unlock kubernetes.Event tasks")
	op.mayHold()
	time.Sleep(10 * time.Second)
	figure(t, "100,000 ConfigMaps: resident 10 s later", resident(t, op.Operator, residentNow), 400, "MiB")
	figure(t, "100,000 ConfigMaps: peak", resident(t, op.Operator, residentPeak), 0, "MiB")
	changed := time.Now()
	_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "one-more"}},
		metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	op.Until("the change", func(records []testenv.Record) bool { return count(records, "run ") == 2 })
	figure(t, "100,000 ConfigMaps: one more, until the hook's line", float64(time.Since(changed).Milliseconds()), 1000, "ms")
}

// As many changes as the control plane can make in a minute, up to 2,000 a second, and hooks that take two seconds a run:
// one gets each change, one is grouped.
func TestManyEvents(t *testing.T) {
	wanted(t, "2000-events-a-second")
	cluster := testenv.Own(t)
	namespace := cluster.Namespace(t)
	client := clientOf(t, cluster)
	const objects, rate = 48, 2000
	config := func(more string) string {
		return fmt.Sprintf("configVersion: v1\nkubernetes:\n- {name: b, kind: ConfigMap, executeHookOnEvent: [Modified], "+
			"%s namespace: {nameSelector: {matchNames: [%s]}}}", more, namespace)
	}
	// The hook prints, for each change, object and count: the order is checked below.
	slow := `sleep 2; jq -r '"received " + (map(select(.type == "Event") | .object | "\(.metadata.name)=\(.data.n)") | join(" "))' ` +
		`$BINDING_CONTEXT_PATH | head -c 30000000`
	received := newOrder()
	dir := t.TempDir()
	for name, text := range map[string]string{"each.sh": hookText(config("queue: each,"), slow),
		"grouped.sh": hookText(config("queue: grouped, group: g,"), "sleep 2; echo grouped")} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	op := startWatched(t, testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig, Ignore: received.line})
	op.Until("both hooks", func(records []testenv.Record) bool { return count(records, "Unlock kubernetes.Event tasks") == 2 })
	for i := range objects {
		_, err := client.CoreV1().ConfigMaps(namespace).Create(t.Context(), newCounted(i, 0), metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	op.mayHold()
	idle := resident(t, op.Operator, residentNow)
	started := time.Now()
	var made atomic.Int64
	var writing sync.WaitGroup
	for i := range objects {
		writing.Go(func() {
			for n := 1; time.Since(started) < time.Minute; n++ {
				if _, err := client.CoreV1().ConfigMaps(namespace).Update(t.Context(), newCounted(i, n), metav1.UpdateOptions{}); err != nil {
					t.Error(err)
					return
				}
				made.Add(1)
				received.made(fmt.Sprint("map-", i), n)
				// Faster than that is not asked for.
				if ahead := time.Duration(n)*time.Second*objects/rate - time.Since(started); ahead > 0 {
					time.Sleep(ahead)
				}
			}
		})
	}
	writing.Wait()
	ended := time.Now()
	waiting := made.Load() - received.heard()
	figure(t, "changes in a second", float64(made.Load())/60, 0, "")
	figure(t, "changes that wait at the end of the minute", float64(waiting), 0, "")
	received.wait(t, made.Load())
	figure(t, "until the last of them has been received", time.Since(ended).Seconds(), 0, "s")
	figure(t, "idle", idle, 0, "MiB")
	// How much that may be depends on how much waits: the scenario flood-small of make bench measures both.
	figure(t, "peak above idle", resident(t, op.Operator, residentPeak)-idle, 0, "MiB")
	for _, wrong := range received.wrong() {
		t.Error(wrong)
	}
}

func newCounted(i, n int) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("map-", i)},
		Data:       map[string]string{"n": fmt.Sprint(n), "text": strings.Repeat("x", 1000)},
	}
}

// order follows what a hook prints about changes, without keeping it: for each object the counts must come one by one.
type order struct {
	mu     sync.Mutex
	last   map[string]int // received
	goal   map[string]int // made
	total  int64
	broken []string
	more   chan struct{}
}

func newOrder() *order {
	return &order{last: map[string]int{}, goal: map[string]int{}, more: make(chan struct{}, 1)}
}

// line reads a line of the operator's log, and reports that no other test code needs it.
func (o *order) line(text string) bool {
	if strings.Contains(text, `"msg":"queue task"`) {
		return true
	}
	_, list, isReceived := strings.Cut(text, `"msg":"received `)
	if !isReceived {
		return false
	}
	list, _, _ = strings.Cut(list, `"`)
	o.mu.Lock()
	defer o.mu.Unlock()
	for word := range strings.FieldsSeq(list) {
		name, text, _ := strings.Cut(word, "=")
		n, err := strconv.Atoi(text)
		if err != nil || n != o.last[name]+1 {
			o.broken = append(o.broken, fmt.Sprintf("%s came after %d", word, o.last[name]))
		}
		o.last[name] = n
		o.total++
	}
	select {
	case o.more <- struct{}{}:
	default:
	}
	return true
}

func (o *order) made(name string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.goal[name] = n
}

func (o *order) heard() int64 {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.total
}

func (o *order) wait(t *testing.T, all int64) {
	t.Helper()
	late := time.After(5 * time.Minute)
	for o.heard() < all {
		select {
		case <-o.more:
		case <-late:
			t.Fatalf("%d of %d changes were delivered within five minutes", o.heard(), all)
		}
	}
}

func (o *order) wrong() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	wrong := o.broken[:min(len(o.broken), 10)]
	for name, n := range o.goal {
		if o.last[name] != n {
			wrong = append(wrong, fmt.Sprintf("%s: %d is the last that was delivered, not %d", name, o.last[name], n))
		}
	}
	return wrong
}

// A thousand schedules in one hook, with a thousand different crontabs that are all due at the same time, make one run. On a slow machine a
// round may be joined with the next one, but none is torn for good.
func TestManySchedules(t *testing.T) {
	wanted(t, "1000-schedules")
	together(t)
	cluster := testenv.Shared(t)
	var config strings.Builder
	config.WriteString("configVersion: v1\nschedule:\n")
	for i := range 1000 {
		// Each says in words of its own: every five seconds.
		minute, hour := i%59, i/59
		fmt.Fprintf(&config, "- {name: s%d, crontab: \"*/5 0-%d,%d-59 0-%d,%d-23 * * *\"}\n", i, minute, minute+1, hour, hour+1)
	}
	op := simple(t, cluster,
		map[string]string{"hook.sh": hookText(config.String(), `echo "run $(tr -cd '{' < $BINDING_CONTEXT_PATH | wc -c)"`)})
	enabled := op.UntilLog("Schedule binding for hook enabled successfully")
	op.mayHold()
	figure(t, "1,000 schedules: enabled after the start", enabled.At.Sub(op.Started).Seconds(), 0, "s")
	received, late := 0, 0.0
	op.Until("two rounds", func(records []testenv.Record) bool {
		received = 0
		for _, r := range records {
			if text, ok := strings.CutPrefix(r.Fields["msg"], "run "); ok {
				n, _ := strconv.Atoi(strings.TrimSpace(text))
				received += n
				late = r.At.Sub(r.At.Truncate(5 * time.Second)).Seconds()
			}
		}
		return received >= 2000 && received%1000 == 0
	})
	figure(t, "1,000 schedules: from when they are due to the hook's line", late*1000, 0, "ms")
	figure(t, "1,000 schedules: resident", resident(t, op.Operator, residentNow), 0, "MiB")
	figure(t, "1,000 schedules: CPU time since the start, two rounds with it", cpu(t, op.Operator), 0, "s")
}

// cpu is what a process has used of the processors, in seconds.
func cpu(t *testing.T, op *testenv.Operator) float64 {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", op.Pid()))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), ") ")
	fields := strings.Fields(rest)
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / 100
}

// 300 hooks with three bindings each.
func TestManyHooks(t *testing.T) {
	wanted(t, "300-hooks")
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	hooks := map[string]string{}
	for i := range 300 {
		hooks[fmt.Sprintf("hook-%03d.sh", i)] = hookText(fmt.Sprintf(`
configVersion: v1
onStartup: %d
kubernetes:
- {kind: ConfigMap, queue: q%d, namespace: {nameSelector: {matchNames: [%s]}}}
schedule: [{crontab: "0 0 1 1 *"}]`, i, i%20, namespace), "echo ran")
	}
	op := simple(t, cluster, hooks)
	op.Until("all hooks", func(records []testenv.Record) bool {
		return count(records, "Schedule binding for hook enabled successfully") == 300
	})
	op.mayHold()
	records := op.Records()
	loaded := op.UntilLog("Loaded config")
	figure(t, "300 hooks: configurations after the start", loaded.At.Sub(op.Started).Seconds(), 0, "s")
	figure(t, "300 hooks: 600 runs after the start", records[len(records)-1].At.Sub(op.Started).Seconds(), 0, "s")
	if n := count(records, "ran"); n != 600 {
		t.Errorf("%d runs, want 600", n)
	}
	figure(t, "300 hooks: resident", resident(t, op.Operator, residentNow), 0, "MiB")
}
