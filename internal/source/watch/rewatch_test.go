package watch

import (
	"bytes"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/event"
	"github.com/shell-operator/shell-operator/internal/hook"
)

// recasting is an API server whose lists have another form of the objects, as those that are converted by a webhook or not.
type recasting struct {
	*server
	form atomic.Pointer[string]
}

func (r *recasting) RoundTrip(req *http.Request) (*http.Response, error) {
	answer, err := r.server.RoundTrip(req)
	if err == nil && strings.Contains(req.URL.Path, "configmaps") && req.URL.Query().Get("watch") == "" {
		text, failed := io.ReadAll(answer.Body)
		answer.Body, err = io.NopCloser(bytes.NewReader(bytes.ReplaceAll(text, []byte(`"metadata":{"name"`),
			[]byte(`"form":"`+*r.form.Load()+`","metadata":{"name"`)))), failed
	}
	return answer, err
}

// Objects whose form has changed with spec.conversion have the same resource versions. Snapshots have the new form, and hooks receive
// Modified, unless a filter hides it. The API server may use the change a little later.
func TestConvertedObjectsAreModified(t *testing.T) {
	r := &recasting{server: newServer(1)}
	form := func(text string) { r.form.Store(&text) }
	form("a")
	followThrough(t, r.server, r, func(w *Watcher, seen *witness) {
		r.write("second", false)
		all := hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n")}
		names, forms := all, all
		names.JQFilter, forms.JQFilter = ".metadata.name", ".form"
		slim := bindings("slim", all)
		slim.Kubernetes[0].KeepFullObjects = false
		hooks := []*hook.Hook{bindings("full", all), bindings("forms", forms), bindings("names", names), slim}
		for _, h := range hooks {
			seen.enable(w, h)
		}
		expect := func(want string, events ...string) {
			t.Helper()
			time.Sleep(10 * time.Second)
			for i, h := range hooks {
				seen.mu.Lock()
				got := slices.Sorted(slices.Values(seen.events[h]))
				seen.events[h] = nil
				seen.mu.Unlock()
				if i < 2 && !slices.Equal(got, events) || i >= 2 && len(got) > 0 {
					t.Errorf("hook %s received %q", h.Name, got)
				}
				if i == len(hooks)-1 {
					continue
				}
				w.Snapshot(h, 0).Each(func(o event.Object) bool {
					if text, _ := o.Full.Bytes(); !strings.Contains(string(text), `"form":"`+want+`"`) {
						t.Errorf("hook %s has %s", h.Name, text)
					}
					return true
				})
			}
		}
		expect("a")
		w.Rewatch("configmaps")
		expect("a")
		form("b")
		w.Rewatch("configmaps")
		expect("b", "Modified first", "Modified second")
		w.Rewatch("configmaps")
		time.Sleep(time.Second / 2)
		form("c")
		r.cut() // the watch had no event: a list follows
		expect("c", "Modified first", "Modified second")
	})
}

// Another form of the objects in any other list makes no event, also directly after a start: an API server may have other defaults.
func TestOtherListsMakeNoEvents(t *testing.T) {
	r := &recasting{server: newServer(1)}
	form := func(text string) { r.form.Store(&text) }
	form("a")
	followThrough(t, r.server, r, func(w *Watcher, seen *witness) {
		h := seen.enable(w, bindings("full", hook.Kubernetes{APIVersion: "v1", Kind: "ConfigMap", Namespaces: inNamespaces("n")}))
		time.Sleep(time.Second / 2)
		form("b")
		r.cut() // the watch had no event: a list follows
		time.Sleep(10 * time.Second)
		if len(seen.events[h]) > 0 {
			t.Errorf("events %q", seen.events[h])
		}
	})
}
