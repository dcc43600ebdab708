package finalizer

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/go-json-experiment/json"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// server is an API server with the record, and as many objects with each finalizer as finalized says.
type server struct {
	mu        sync.Mutex
	version   int
	finalized int
	record    []byte
	changed   chan struct{}
	// down makes all requests fail; readOnly rejects changes.
	down, readOnly bool
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.down {
		return nil, errors.New("the API server is down")
	}
	answer := func(code int, body io.ReadCloser) *http.Response {
		return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}}, Body: body, Request: req}
	}
	text := func(code int, text []byte) (*http.Response, error) {
		return answer(code, io.NopCloser(bytes.NewReader(text))), nil
	}
	fails := func(code int, reason string) (*http.Response, error) {
		return text(code, fmt.Appendf(nil, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, reason, code))
	}
	if req.Method != http.MethodGet && s.readOnly {
		return fails(403, "Forbidden")
	}
	switch ofRecord := strings.HasSuffix(req.URL.Path, "/"+RecordName); {
	case req.URL.Query().Get("watch") == "true":
		out, in := io.Pipe()
		go s.stream(req.Context(), in)
		return answer(200, out), nil
	case req.Method == http.MethodGet && !ofRecord:
		object := `{"metadata": {"name": "a", "namespace": "ns", "finalizers": ["example.com/f"]}},`
		return text(200, fmt.Appendf(nil, `{"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {}, "items": [%s]}`,
			strings.TrimSuffix(strings.Repeat(object, s.finalized), ",")))
	case s.record == nil && req.Method != http.MethodPost:
		return fails(404, "NotFound")
	case req.Method == http.MethodPost:
		if s.record != nil {
			return fails(409, "AlreadyExists")
		}
		s.set(body)
	case req.Method == http.MethodPatch:
		var from configMap
		if json.Unmarshal(body, &from) != nil || from.Metadata.ResourceVersion != strconv.Itoa(s.version) {
			return fails(409, "Conflict")
		}
		merged, err := jsonpatch.MergePatch(s.record, body)
		if err != nil {
			return fails(400, "BadRequest")
		}
		s.set(merged)
	case req.Method == http.MethodDelete:
		s.set(nil)
		return text(200, []byte(`{"kind": "Status", "apiVersion": "v1", "status": "Success"}`))
	}
	return text(200, s.record)
}

// set is called with the lock.
func (s *server) set(text []byte) {
	s.version++
	if text != nil {
		text, _ = jsonpatch.MergePatch(text, fmt.Appendf(nil, `{"metadata": {"resourceVersion": "%d"}}`, s.version))
	}
	s.record = text
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *server) stream(ctx context.Context, to *io.PipeWriter) {
	defer to.Close()
	for {
		s.mu.Lock()
		now, changed := s.record, s.changed
		s.mu.Unlock()
		if now != nil {
			if _, err := fmt.Fprintf(to, `{"type": "MODIFIED", "object": %s}`, now); err != nil {
				return
			}
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return
		}
	}
}

func (s *server) options(t *testing.T, operator string) Options {
	client, err := kube.NewClient(&rest.Config{Host: "http://server", Transport: s, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return Options{Client: client, Namespace: func() (string, error) { return "ns", nil }, Instance: "ns.operator", Operator: operator,
		Log: slog.New(slog.DiscardHandler)}
}

// running is an operator, which searches for orphans when the others change and every half minute.
type running struct {
	*Record
	end  func()
	done chan struct{}
}

func (s *server) start(t *testing.T, o Options, hooks ...*hook.Hook) *running {
	ctx, end := context.WithCancel(t.Context())
	r := &running{New(o), end, make(chan struct{})}
	go func() {
		defer close(r.done)
		var working sync.WaitGroup
		defer working.Wait()
		working.Go(func() { r.Run(ctx) })
		for _, h := range hooks {
			if err := r.Claim(ctx, h, 0, configMaps); err != nil {
				t.Error(err)
			}
		}
		for ctx.Err() == nil {
			_ = r.CheckOrphans(ctx, hooks, true)
			select {
			case <-time.After(30 * time.Second):
			case <-ctx.Done():
			}
		}
	}()
	return r
}

// kill ends an operator without its last requests.
func (s *server) kill(r *running) {
	s.mu.Lock()
	s.readOnly = true
	s.mu.Unlock()
	r.end()
	<-r.done
	s.mu.Lock()
	s.readOnly = false
	s.mu.Unlock()
}

// now is the record; nil if there is none.
func (s *server) now() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.record
}

func (s *server) has(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bytes.Contains(s.record, []byte(text))
}

var configMaps = kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: "ConfigMap",
	Namespaced: true}

// forever is longer than any of the cases lasts.
const forever = 3 * time.Hour

// An operator that removes orphaned finalizers meets the record of another one, which has no object yet. Each case is what happens to the
// other one; the entry is kept about so long, with the time of a renewal.
func TestRemovalWaitsForTheOther(t *testing.T) {
	for name, c := range map[string]struct {
		// before happens before the start, and after a minute later.
		before, after func(s *server, other *running)
		kept          time.Duration
	}{
		"it runs":                            {kept: forever},
		"it was killed":                      {before: func(s *server, other *running) { s.kill(other) }, kept: silence},
		"it has ended":                       {before: func(_ *server, other *running) { other.end(); <-other.done }},
		"it is killed":                       {after: func(s *server, other *running) { s.kill(other) }, kept: silence},
		"it ends, and may start again":       {after: func(_ *server, other *running) { other.end(); <-other.done }, kept: silence},
		"the API server is down for an hour": {after: func(s *server, _ *running) { s.outage(time.Hour) }, kept: forever},
		"it was killed before the API server was down": {before: func(s *server, other *running) { s.kill(other) },
			after: func(s *server, _ *running) { s.outage(time.Hour) }, kept: time.Hour + silence},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &server{changed: make(chan struct{})}
				other := s.start(t, s.options(t, "process other/1"), &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}})
				time.Sleep(time.Minute)
				if c.before != nil {
					c.before(s, other)
				}
				self := s.start(t, s.options(t, "process self/1"))
				time.Sleep(time.Minute)
				if c.after != nil {
					c.after(s, other)
				}
				began := time.Now()
				for s.has("example.com/f") && time.Since(began) < forever {
					time.Sleep(time.Second)
				}
				if kept := time.Since(began); kept < c.kept-time.Minute || kept > c.kept+renewal+time.Minute {
					t.Errorf("the entry was kept for %s", kept)
				}
				self.end()
				other.end()
				<-self.done
				<-other.done
				if s.has("self/1") {
					t.Error("an operator that has ended leaves its heartbeat")
				}
			})
		})
	}
}

// outage ends after a while.
func (s *server) outage(d time.Duration) {
	s.mu.Lock()
	s.down = true
	s.mu.Unlock()
	go func() {
		time.Sleep(d)
		s.mu.Lock()
		s.down = false
		s.mu.Unlock()
	}()
}

// Operators of one installation notice each other without waiting for a renewal. Replicas that share a Lease are one, also after a change
// of the leader.
func TestOperatorsNoticeEachOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{changed: make(chan struct{})}
		var all []*running
		for i, name := range []string{"process a/1", "process b/1", "lease ns/shell-operator", "lease ns/shell-operator"} {
			o := s.options(t, name)
			o.Lease = i > 1
			all = append(all, s.start(t, o, &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: fmt.Sprintf("example.com/f%d", i)}}}))
			time.Sleep(responseTime)
		}
		time.Sleep(renewal) // a new leader gets no responses, because the others know its Lease
		for i, want := range []string{"[lease ns/shell-operator process b/1]", "[lease ns/shell-operator process a/1]",
			"[process a/1 process b/1]", "[process a/1 process b/1]"} {
			if got := fmt.Sprint(all[i].Alive()); got != want {
				t.Errorf("operator %d sees %s", i, got)
			}
		}
		for _, r := range all {
			r.end()
			<-r.done
		}
		if s.has("process") || !s.has("lease ns/shell-operator") {
			t.Error("processes that end remove their heartbeats, replicas leave that of their Lease to the others")
		}
	})
}

// Processes that are killed repeatedly do not fill the record, and neither do they when no other process runs long enough to notice.
func TestHeartbeatsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{changed: make(chan struct{})}
		for i := range 5 * maxHeartbeats {
			r := s.start(t, s.options(t, fmt.Sprintf("process p/%d", i)),
				&hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}})
			time.Sleep(time.Minute)
			s.kill(r)
		}
		now, err := decode(s.now())
		if err != nil || len(now.heartbeats()) > maxHeartbeats+1 {
			t.Errorf("%d heartbeats, %v", len(now.heartbeats()), err)
		}
		r := s.start(t, s.options(t, "process last/1"), &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}})
		time.Sleep(silence + 2*renewal)
		if now, err := decode(s.now()); err != nil || len(now.heartbeats()) != 1 {
			t.Errorf("%d heartbeats after the silence of all others, %v", len(now.heartbeats()), err)
		}
		r.end()
		<-r.done
	})
}

// Uninstall changes nothing while another operator responds than the one that may be running. A heartbeat that a kill has left does not
// stop it.
func TestUninstallBesideAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{changed: make(chan struct{})}
		start := func(name string) *running {
			return s.start(t, s.options(t, "process "+name),
				&hook.Hook{Name: name, Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/" + name}}})
		}
		one, two := start("one"), start("two")
		time.Sleep(time.Minute)
		o := s.options(t, "lease ns/operator")
		var elsewhere *ElsewhereError
		for _, running := range []bool{false, true} {
			if err := Uninstall(t.Context(), o, running); !errors.As(err, &elsewhere) || !s.has("example.com/one") {
				t.Errorf("uninstall beside two operators: %v", err)
			}
		}
		s.kill(two)
		if err := Uninstall(t.Context(), o, false); !errors.As(err, &elsewhere) {
			t.Errorf("uninstall of another operator: %v", err)
		}
		began := time.Now()
		if err := Uninstall(t.Context(), o, true); err != nil || s.now() != nil || time.Since(began) > 2*responseTime {
			t.Errorf("uninstall beside its operator: %v after %s, %s is left", err, time.Since(began), s.now())
		}
		one.end()
		<-one.done
		if left := s.now(); left != nil {
			t.Errorf("the operator has left %s", left)
		}
	})
}

// With shards the entries of a hook that is gone stay, also those without an object.
func TestEntriesAreKept(t *testing.T) {
	for _, keep := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			s := &server{changed: make(chan struct{})}
			o := s.options(t, "lease ns/name")
			o.Lease, o.KeepEntries = true, keep
			first := s.start(t, o, &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}})
			time.Sleep(time.Minute)
			first.end()
			<-first.done
			second := s.start(t, o) // the hook is gone
			time.Sleep(2 * silence)
			if has := s.has("example.com/f"); has != keep {
				t.Errorf("keep %t: the record has the entry: %t", keep, has)
			}
			second.end()
			<-second.done
		})
	}
}

// An orphan is logged when it is found, and when it changes: a search follows each change of the hooks.
func TestOrphansAreLoggedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{changed: make(chan struct{}), finalized: 2}
		o := s.options(t, "lease ns/name")
		var log bytes.Buffer
		o.Lease, o.KeepEntries, o.Log = true, true, slog.New(slog.NewTextHandler(&log, nil))
		pods := kube.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "pods"}, Kind: "Pod", Namespaced: true}
		h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}}
		if err := New(o).Claim(t.Context(), h, 0, pods); err != nil {
			t.Fatal(err)
		}
		r := New(o)
		for _, step := range []struct{ objects, logged int }{{2, 1}, {2, 1}, {1, 2}, {1, 2}, {0, 2}, {1, 3}} {
			s.finalized = step.objects
			if err := r.CheckOrphans(t.Context(), nil, false); err != nil {
				t.Fatal(err)
			}
			if n := strings.Count(log.String(), "A finalizer has no hook any more"); n != step.logged {
				t.Fatalf("with %d objects it is logged %d times, want %d", step.objects, n, step.logged)
			}
		}
	})
}

// The owners of shards have one entry for each finalizer and one heartbeat, which the owner of shard 0 renews: they do not write in turn.
func TestShardsWriteOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{changed: make(chan struct{})}
		h := &hook.Hook{Name: "h", Kubernetes: []hook.Kubernetes{{Finalizer: "example.com/f"}}}
		var all []*running
		for i := range 3 {
			o := s.options(t, "lease ns/name")
			o.Lease, o.KeepEntries, o.Beats = true, true, func() bool { return i == 0 }
			all = append(all, s.start(t, o, h))
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		s.mu.Lock()
		begun := s.version
		s.mu.Unlock()
		time.Sleep(10 * renewal)
		synctest.Wait()
		now, err := decode(s.now())
		if err != nil || len(now.heartbeats()) != 1 || len(now.Data) != 1 {
			t.Errorf("%d heartbeats, %d entries, %v", len(now.heartbeats()), len(now.Data), err)
		}
		s.mu.Lock()
		written := s.version - begun
		s.mu.Unlock()
		if begun > 2 || written != 10 {
			t.Errorf("the record was written %d times at the start, and %d times in ten renewals", begun, written)
		}
		for _, r := range all {
			r.end()
			<-r.done
		}
	})
}
