package reload

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// stream creates ConfigMaps without end.
type stream struct {
	// deletes: each is deleted again, and the next one follows immediately.
	deletes bool
	t       *testing.T
	client  kubernetes.Interface
	ns      string
	writing sync.WaitGroup
	over    chan struct{}

	mu sync.Mutex // held while an object is created
	// objects is how many there are, named o-0 and so on.
	objects int
}

func newStream(t *testing.T, cluster *testenv.Cluster, ns string, deletes bool) *stream {
	t.Helper()
	s := &stream{t: t, client: cluster.Clientset(t), ns: ns, deletes: deletes, over: make(chan struct{})}
	s.writing.Go(func() {
		pace := time.NewTicker(10 * time.Millisecond)
		defer pace.Stop()
		if deletes {
			pace.Reset(time.Microsecond)
		}
		for {
			s.mu.Lock()
			s.create()
			s.mu.Unlock()
			select {
			case <-s.over:
				return
			case <-pace.C:
			}
		}
	})
	t.Cleanup(s.end)
	return s
}

// create creates the next object. The caller holds mu.
func (s *stream) create() {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("o-%d", s.objects),
		Labels: map[string]string{"stream": "yes"}}}
	if _, err := s.client.CoreV1().ConfigMaps(s.ns).Create(s.t.Context(), object, metav1.CreateOptions{}); err != nil &&
		s.t.Context().Err() == nil {
		s.t.Error(err)
	}
	if s.deletes {
		if err := s.client.CoreV1().ConfigMaps(s.ns).Delete(s.t.Context(), object.Name, metav1.DeleteOptions{}); err != nil {
			s.t.Error(err)
		}
	}
	s.objects++
}

// end ends the stream. It may be called again.
func (s *stream) end() {
	select {
	case <-s.over:
	default:
		close(s.over)
	}
	s.writing.Wait()
}

// ten waits until a version has received ten contexts.
func (s *stream) ten(op *testenv.Operator, version string) {
	s.t.Helper()
	op.Until("ten contexts of "+version, func(records []testenv.Record) bool {
		return strings.Count("\n"+strings.Join(received(records), "\n"), "\nhook "+version+"-") >= 10
	})
}

func (s *stream) untilTold(op *testenv.Operator, name string) {
	s.t.Helper()
	op.Until("object "+name, func(records []testenv.Record) bool {
		maps, own := false, false
		for _, line := range received(records) {
			switch _, what, _ := strings.Cut(line, ": "); {
			case strings.HasPrefix(what, "maps ") && strings.Contains(what+" ", " "+name+" "):
				maps = true
			case strings.HasPrefix(what, "of-") && strings.Contains(what+" ", " "+name+" "):
				own = true
			}
		}
		return maps && own
	})
}

// check sees that each version of the hook received an object once, in its Synchronization or as Added, and the last one of
// all; and that no run was of two versions: neither its text and the library beside it, nor these and the binding that there
// is in one version only. It returns how many contexts each version received.
func (s *stream) check(op *testenv.Operator, last string) map[string]int {
	s.t.Helper()
	seen, versions := map[string]map[string]int{}, map[string]int{}
	for _, line := range received(op.Records()) {
		head, what, _ := strings.Cut(line, ": ")
		_, version, _ := strings.Cut(head, " ")
		text, library, _ := strings.Cut(version, "-")
		versions[text]++
		if of, own := strings.CutPrefix(what, "of-"); text != library || own && !strings.HasPrefix(of, text+" ") {
			s.t.Errorf("a run of two versions: %s", line)
		}
		if names, ok := strings.CutPrefix(what, "maps "); ok {
			if seen[text] == nil {
				seen[text] = map[string]int{}
			}
			for _, name := range strings.Fields(names)[1:] {
				seen[text][name]++
			}
		}
	}
	for version, objects := range seen {
		for name, n := range objects {
			if n != 1 {
				s.t.Errorf("version %s received %d times %s", version, n, name)
			}
		}
	}
	if n := len(seen[last]); n != s.objects {
		s.t.Errorf("version %s received %d objects, there are %d", last, n, s.objects)
	}
	s.t.Logf("%d objects, contexts by version: %v", s.objects, versions)
	return versions
}

const streamed = `{name: %s, kind: ConfigMap, labelSelector: {matchLabels: {stream: "yes"}}, ` +
	`namespace: {nameSelector: {matchNames: [%s]}}, keepFullObjectsInMemory: true}`

// text is a hook that says which version it is and which version the library beside it is. One of its bindings stays, another
// is in this version only.
func (d dir) text(version string) string {
	config := bindings(fmt.Sprintf(streamed, "maps", d.ns), fmt.Sprintf(streamed, "of-"+version, d.ns))
	return "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '" + config + "'; exit; fi\n" +
		". \"$(dirname \"$0\")/lib.sh\"\n. ./lib.sh\nprintf 'run " + version + "-%s ' \"$library\"; cat \"$BINDING_CONTEXT_PATH\"\n"
}

func libraryOf(version string) string { return "library=" + version + "\n" }

// Under a stream of events no version of a hook receives events of a binding of another one, nor loads the library of
// another one.
func TestTextsUnderStream(t *testing.T) {
	const versions = 6
	version := func(n int) string { return fmt.Sprintf("v%d", n) }
	for name, change := range map[string]func(d dir, n int){
		"files": func(d dir, n int) {
			d.put("lib.sh", libraryOf(version(n)), 0o644)
			d.put("hook", d.text(version(n)), 0o755)
		},
		// As kubelet does it: the old files are gone right after the swap.
		"mounted": func(d dir, n int) {
			in, data := filepath.Join(d.path, ".."+version(n)), filepath.Join(d.path, "..data")
			old, _ := os.Readlink(data)
			err := errors.Join(os.Mkdir(in, 0o755),
				os.WriteFile(filepath.Join(in, "lib.sh"), []byte(libraryOf(version(n))), 0o644),
				os.WriteFile(filepath.Join(in, "hook"), []byte(d.text(version(n))), 0o644),
				os.Symlink(".."+version(n), data+"_tmp"), os.Rename(data+"_tmp", data))
			if old != "" {
				err = errors.Join(err, os.RemoveAll(filepath.Join(d.path, old)))
			} else {
				err = errors.Join(err, os.Symlink("..data/lib.sh", filepath.Join(d.path, "lib.sh")),
					os.Symlink("..data/hook", filepath.Join(d.path, "hook")))
			}
			if err != nil {
				d.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			cluster := testenv.Either(t)
			d := dir{t, t.TempDir(), cluster.Namespace(t)}
			change(d, 0)
			op := start(t, cluster, d)
			until(op, t, "hook v0-v0: maps Synchronization", "hook v0-v0: of-v0 Synchronization")
			s := newStream(t, cluster, d.ns, false)
			for n := 1; n <= versions; n++ {
				s.ten(op, version(n-1))
				change(d, n)
				reloaded(op, n)
			}
			s.ten(op, version(versions))
			s.end()
			s.untilTold(op, fmt.Sprintf("o-%d", s.objects-1))
			counts := s.check(op, version(versions))
			for n := range versions + 1 {
				if counts[version(n)] < 10 {
					t.Errorf("version %d received %d contexts", n, counts[version(n)])
				}
			}
		})
	}
}
