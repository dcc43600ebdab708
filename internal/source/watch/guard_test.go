package watch

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	authorization "k8s.io/api/authorization/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// cluster is an API server with ConfigMaps and namespaces, and answers reviews of permissions.
type cluster struct {
	*server
	mu sync.Mutex
	// allowed are permissions as "verb namespace/name"; "*" is any verb. failing gives no answer. reviews counts the answers. silent
	// reviews are not answered before their time is over, and lists not before list is closed, if there is one.
	allowed map[string]bool
	failing bool
	silent  bool
	reviews int
	list    chan struct{}
	// namespaces are those that the selector of a binding selects; joined has those that join.
	namespaces []string
	joined     chan string
}

func (c *cluster) set(do func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	do()
}

// reviewed returns how many reviews were answered since the last call.
func (c *cluster) reviewed() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.reviews
	c.reviews = 0
	return n
}

func (c *cluster) RoundTrip(req *http.Request) (*http.Response, error) {
	switch {
	case strings.HasSuffix(req.URL.Path, "selfsubjectaccessreviews"):
		return c.review(req)
	case req.URL.Path == "/api/v1":
		return respond(200, `{"resources":[{"name":"configmaps","kind":"ConfigMap","namespaced":true,"verbs":["list","watch"]}]}`), nil
	case req.URL.Path != "/api/v1/namespaces":
		c.mu.Lock()
		list := c.list
		c.mu.Unlock()
		if list != nil {
			<-list
		}
		return c.server.RoundTrip(req)
	}
	item := func(name string, version int) string {
		return fmt.Sprintf(`{"kind":"Namespace","apiVersion":"v1","metadata":{"name":%q,"uid":%q,"resourceVersion":"%d"}}`, name, name, version)
	}
	if req.URL.Query().Get("watch") == "" {
		var items []string
		c.set(func() {
			for _, n := range c.namespaces {
				items = append(items, item(n, 1))
			}
		})
		return respond(200, `{"kind":"NamespaceList","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[`+
			strings.Join(items, ",")+`]}`), nil
	}
	reader, writer := io.Pipe()
	context.AfterFunc(req.Context(), func() { writer.Close() })
	go func() {
		for version := 2; ; version++ {
			select {
			case name := <-c.joined:
				_, _ = fmt.Fprintf(writer, `{"type":"ADDED","object":%s}`+"\n", item(name, version))
			case <-req.Context().Done():
				return
			}
		}
	}()
	answer := respond(200, "")
	answer.Body = reader
	return answer, nil
}

func (c *cluster) review(req *http.Request) (*http.Response, error) {
	var r authorization.SelfSubjectAccessReview
	if err := json.NewDecoder(req.Body).Decode(&r); err != nil {
		return nil, err
	}
	c.mu.Lock()
	silent := c.silent
	c.mu.Unlock()
	if silent {
		<-req.Context().Done()
		return nil, req.Context().Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.failing {
		return respond(503, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"ServiceUnavailable","code":503,"message":"no"}`), nil
	}
	c.reviews++
	a := r.Spec.ResourceAttributes
	at := a.Namespace + "/" + a.Name
	r.Status.Allowed = c.allowed[a.Verb+" "+at] || c.allowed["* "+at]
	text, err := json.Marshal(r)
	return respond(201, string(text)), err
}

// guarded is a Watcher with a hook of a tenant that has one binding.
type guarded struct {
	*cluster
	*Watcher
	t    *testing.T
	hook *hook.Hook
	seen *witness
	// changes are those of the permission, as reported; stuck is why the binding could not be enabled.
	mu             sync.Mutex
	changes, stuck []string
	end            func()
}

// guard runs a test on a binding of a tenant.
func guardOf(t *testing.T, k hook.Kubernetes, allowed []string, test func(g *guarded)) {
	synctest.Test(t, func(t *testing.T) {
		k.Binding.Name, k.Kind, k.Added, k.Modified, k.Deleted = "b", "ConfigMap", true, true, true
		g := &guarded{t: t, cluster: &cluster{server: newServer(1), allowed: map[string]bool{}, joined: make(chan string)},
			seen: &witness{t: t, known: map[*hook.Hook]map[string]bool{}, events: map[*hook.Hook][]string{}},
			hook: &hook.Hook{Name: "shop/h", Kubernetes: []hook.Kubernetes{k}, Tenant: &hook.Tenant{Name: "shop"}}}
		for _, a := range allowed {
			g.allowed[a] = true
		}
		g.server.changed = make(chan struct{})
		client, err := kube.NewClient(&rest.Config{Host: "http://api.example.com", Transport: g.cluster, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		note := func(text string) func(*hook.Hook, int) {
			return func(*hook.Hook, int) {
				g.mu.Lock()
				defer g.mu.Unlock()
				g.changes = append(g.changes, text)
			}
		}
		g.Watcher, err = New(Options{
			Config: &rest.Config{Host: "http://api.example.com", Transport: g.cluster, QPS: -1}, JQ: jq.NewCompiler(jq.Options{}), Sink: g.seen,
			Log: slog.New(slog.DiscardHandler), Denied: note("denied"), Granted: note("granted"),
			Changes: func(*hook.Hook) rest.Interface { return client },
			Account: func(*hook.Hook) kube.Account { return kube.Account{Client: client, Name: "shop/hooks"} },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = g.Run(ctx) })
		own, end := context.WithCancel(ctx)
		g.end = end
		if err := g.Enable(own, g.hook, func(_ int, err error) { g.stuck = append(g.stuck, err.Error()) }); err != nil {
			t.Fatal(err)
		}
		g.seen.known[g.hook] = map[string]bool{}
		test(g)
		end()
		g.Disable(g.hook, 0)
		if g.Denied(g.hook, 0) || len(g.guards) > 0 || len(g.monitors) > 0 || len(g.unresolved) > 0 {
			t.Errorf("guards %v, monitors %v, unresolved %v", g.guards, g.monitors, g.unresolved)
		}
		cancel()
		running.Wait()
	})
}

// expect checks whether the binding is denied, its objects, the reported changes, and a part of its trouble.
func (g *guarded) expect(denied bool, objects int, changes, trouble string) {
	g.t.Helper()
	synctest.Wait()
	g.mu.Lock()
	got := strings.Join(g.changes, " ")
	g.changes = nil
	g.mu.Unlock()
	troubles := strings.Join(g.Troubles(g.hook, 0), "\n")
	if n := g.Snapshot(g.hook, 0).Len(); g.Watcher.Denied(g.hook, 0) != denied || n != objects || got != changes ||
		!strings.Contains(troubles, trouble) || (trouble == "") != (troubles == "") {
		g.t.Errorf("denied %t, %d objects, changes %q, troubles %q, want %t, %d, %q, %q", g.Watcher.Denied(g.hook, 0), n, got,
			troubles, denied, objects, changes, trouble)
	}
}

// An allowed binding is reviewed every 10 minutes. A no ends it, a yes begins it again; without an answer it stays as it is.
func TestGuard(t *testing.T) {
	guardOf(t, hook.Kubernetes{}, []string{"* /"}, func(g *guarded) {
		g.expect(false, 1, "", "")
		g.Unlock(g.hook, 0)
		if n := g.reviewed(); n != 2 {
			t.Errorf("%d reviews", n)
		}
		time.Sleep(reviewInterval - time.Second)
		if n := g.reviewed(); n != 0 {
			t.Errorf("%d reviews", n)
		}
		g.set(func() { g.failing = true })
		time.Sleep(time.Minute)
		g.expect(false, 1, "", "")
		g.set(func() { g.failing, g.allowed = false, map[string]bool{"list /": true} })
		time.Sleep(deniedLater)
		g.expect(true, 0, "denied", `the account of tenant "shop" may not list and watch configmaps: give the ServiceAccount shop/hooks, by a `+
			`ClusterRole, the rule {apiGroups: [""], resources: ["configmaps"], verbs: ["list", "watch"]}`)
		g.server.write("late", false)
		time.Sleep(10 * time.Second)
		g.reviewed()
		time.Sleep(10 * time.Second)
		if n := g.reviewed(); n < 18 || n > 22 { // two in a second
			t.Errorf("%d reviews in 10 s", n)
		}
		time.Sleep(time.Minute)
		g.reviewed()
		time.Sleep(time.Minute)
		if n := g.reviewed(); n < 2 || n > 6 {
			t.Errorf("%d reviews in a minute", n)
		}
		g.set(func() { g.failing = true })
		time.Sleep(time.Minute)
		g.expect(true, 0, "", "cannot review the permission")
		g.set(func() { g.failing, g.allowed = false, map[string]bool{"* /": true} })
		time.Sleep(30 * time.Second)
		g.expect(false, 2, "granted", "")
		g.seen.mu.Lock()
		if len(g.seen.events[g.hook]) > 0 {
			t.Errorf("events %q", g.seen.events[g.hook])
		}
		g.seen.known[g.hook]["first"], g.seen.known[g.hook]["late"] = true, true
		g.seen.mu.Unlock()
		g.Unlock(g.hook, 0)
		g.server.write("late", true)
		time.Sleep(time.Second)
		g.seen.mu.Lock()
		defer g.seen.mu.Unlock()
		if got := strings.Join(g.seen.events[g.hook], ", "); got != "Deleted late" {
			t.Errorf("events %s", got)
		}
	})
}

// At the first time, no answer is a no. The binding begins when there is one, and when a token reports.
func TestGuardWithoutFirstAnswer(t *testing.T) {
	guardOf(t, hook.Kubernetes{}, nil, func(g *guarded) {
		g.expect(true, 0, "denied", "may not list and watch")
		if len(g.stuck) != 1 {
			t.Errorf("stuck %q", g.stuck)
		}
		g.set(func() { g.allowed["* /"] = true })
		g.Review()
		time.Sleep(500 * time.Millisecond)
		g.expect(false, 1, "granted", "")
	})
}

// Namespaces are reviewed one by one if not all of them are allowed, and names each.
func TestGuardOfScopes(t *testing.T) {
	of := func(names ...string) hook.Kubernetes {
		return hook.Kubernetes{Namespaces: hook.Namespaces{Names: names}}
	}
	named := of("n")
	named.Names = []string{"a", "first"}
	for name, row := range map[string]struct {
		binding hook.Kubernetes
		allowed []string
		trouble string
	}{
		"all namespaces":      {of("n"), []string{"* /"}, ""},
		"each namespace":      {of("m", "n"), []string{"* m/", "* n/"}, ""},
		"one namespace lacks": {of("m", "n"), []string{"* n/"}, `by a Role in namespace "m"`},
		"one verb lacks":      {of("n"), []string{"list n/"}, `by a Role in namespace "n"`},
		"each name":           {named, []string{"* n/a", "* n/first"}, ""},
		"one name lacks": {named, []string{"* n/first"}, `by a Role in namespace "n" (or a ClusterRole), the rule {apiGroups: [""], resources: ` +
			`["configmaps"], resourceNames: ["a", "first"], verbs: ["list", "watch"]}`},
	} {
		t.Run(name, func(t *testing.T) {
			guardOf(t, row.binding, row.allowed, func(g *guarded) {
				synctest.Wait()
				troubles := strings.Join(g.Troubles(g.hook, 0), "\n")
				if denied := g.Watcher.Denied(g.hook, 0); denied != (row.trouble != "") || !strings.Contains(troubles, row.trouble) {
					t.Errorf("denied %t: %s", denied, troubles)
				}
			})
		})
	}
}

// A namespace that joins by its labels is reviewed before the binding has its objects. A no ends the binding, until that is granted, too.
func TestGuardOfLabels(t *testing.T) {
	k := hook.Kubernetes{Namespaces: hook.Namespaces{ByLabels: true, Labels: "team=shop"}}
	guardOf(t, k, []string{"* n/"}, func(g *guarded) {
		g.expect(false, 0, "", "")
		join := func(name string) {
			g.set(func() { g.namespaces = append(g.namespaces, name) })
			g.joined <- name
			time.Sleep(100 * time.Millisecond)
		}
		join("n")
		g.expect(false, 1, "", "")
		join("foreign")
		g.expect(true, 0, "denied", `by a Role in namespace "foreign"`)
		g.set(func() { g.allowed["* foreign/"] = true })
		time.Sleep(time.Second)
		g.expect(false, 1, "granted", "")
	})
}

// A binding that is granted again is denied until its initial list is complete: runs that include it wait for its objects.
func TestGuardGrantsWithObjects(t *testing.T) {
	guardOf(t, hook.Kubernetes{}, nil, func(g *guarded) {
		g.expect(true, 0, "denied", "may not list and watch")
		list := make(chan struct{})
		g.set(func() { g.allowed["* /"], g.list = true, list })
		time.Sleep(5 * time.Second)
		g.expect(true, 0, "", "")
		close(list)
		time.Sleep(time.Minute)
		g.expect(false, 1, "granted", "")
	})
}

// While one of many namespaces is denied, the others are not reviewed again and again.
func TestGuardOfManyNamespaces(t *testing.T) {
	k, allowed := hook.Kubernetes{Namespaces: hook.Namespaces{Names: []string{"n"}}}, []string{"* n/"}
	for i := range 200 {
		k.Namespaces.Names = append(k.Namespaces.Names, fmt.Sprintf("n-%d", i))
		if i != 77 {
			allowed = append(allowed, fmt.Sprintf("* n-%d/", i))
		}
	}
	guardOf(t, k, allowed, func(g *guarded) {
		g.expect(true, 0, "denied", `by a Role in namespace "n-77"`)
		g.reviewed()
		time.Sleep(10 * time.Second)
		if n := g.reviewed(); n > 22 {
			t.Errorf("%d reviews in 10 s", n)
		}
		g.set(func() { g.allowed["* n-77/"], g.allowed["* n-78/"] = true, false })
		time.Sleep(time.Second)
		g.expect(true, 0, "", `by a Role in namespace "n-78"`)
		g.set(func() { g.allowed["* n-78/"] = true })
		time.Sleep(time.Minute)
		g.expect(false, 1, "granted", "")
	})
}

// Namespaces that appear while reviews are not answered do not hold up their stream, which other bindings share.
func TestGuardWithoutAnswerAboutNamespaces(t *testing.T) {
	k := hook.Kubernetes{Namespaces: hook.Namespaces{ByLabels: true, Labels: "team=shop"}}
	guardOf(t, k, []string{"* n/"}, func(g *guarded) {
		own := g.guardOf(address{g.hook, 0})
		g.set(func() { g.silent = true })
		began := time.Now()
		for i := range 100 {
			if own.admit(fmt.Sprintf("n-%d", i)) {
				t.Error("a namespace is admitted without an answer")
			}
		}
		if held := time.Since(began); held > 2*time.Second {
			t.Errorf("the stream is held for %s", held)
		}
		g.set(func() { g.silent, g.allowed["* n-0/"] = false, true })
		time.Sleep(2 * reviewTimeout)
		if !own.admit("n-0") {
			t.Error("a namespace is not admitted")
		}
		g.expect(false, 0, "", "")
	})
}

// A missing permission to change finalizers is one of the account that changes them.
func TestGuardOfFinalizers(t *testing.T) {
	guardOf(t, hook.Kubernetes{Finalizer: "example.com/f"}, []string{"* /"}, func(g *guarded) {
		gate := g.monitor(g.hook, 0).gate
		c := &change{object: kube.Finalized{Namespace: "n", Name: "first"}}
		if got := gate.missing("no permission to remove the finalizer", c); !strings.Contains(got,
			"give the ServiceAccount shop/hooks, by a Role") {
			t.Error(got)
		}
	})
}
