package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// contested is the object, in an API server that rejects some writes of the operator, and forbids to watch and the methods in forbids.
type contested struct {
	mu   sync.Mutex
	live *configuration
	// rejects are the statuses of the next writes, 0 accepts one.
	rejects []int
	forbids string
	// wrong are writes that remove what is registered.
	wrong  []string
	writes int
	reads  int
}

func (c *contested) RoundTrip(r *http.Request) (*http.Response, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	status, body := c.respond(r)
	text, err := json.Marshal(body)
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(string(text))), Request: r}, err
}

func (c *contested) respond(r *http.Request) (status int, body any) {
	failure := func(code int) (int, any) {
		reason := map[int]string{403: "Forbidden", 409: "Conflict", 422: "Invalid", 500: "InternalError"}[code]
		return code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": reason, "code": code}
	}
	switch {
	case r.URL.Query().Get("watch") != "", strings.Contains(c.forbids, r.Method):
		return failure(403)
	case r.Method == http.MethodGet:
		c.reads++
	}
	switch {
	case r.Method == http.MethodGet && c.live == nil:
		return 200, map[string]any{"items": []any{}}
	case r.Method == http.MethodGet:
		return 200, map[string]any{"items": []any{c.live}}
	}
	c.writes++
	var next configuration
	if r.Method == http.MethodDelete || json.NewDecoder(r.Body).Decode(&next) != nil || len(next.Webhooks) != 3 {
		c.wrong = append(c.wrong, fmt.Sprintf("%s with %d webhooks", r.Method, len(next.Webhooks)))
	}
	if len(c.rejects) > 0 {
		code := c.rejects[0]
		if c.rejects = c.rejects[1:]; code != 0 {
			return failure(code)
		}
	}
	if (r.Method == http.MethodPost) != (c.live == nil) {
		return failure(409)
	}
	c.live = &next
	return 200, c.live
}

func (c *contested) client(t *testing.T) rest.Interface {
	client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: c, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// keep keeps the object with the options until stop is called.
func (c *contested) keep(t *testing.T, o RegistrarOptions) (stop func(), log *logText) {
	o.Client, o.Service = c.client(t), svc
	r, log := newRegistrar(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { r.keepers[0].Object.Run(ctx); close(ended) }()
	return func() { cancel(); <-ended }, log
}

// Of two operators that want different webhooks the newer one gets them, as long as it is there.
func TestTwoVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, reports, hooks := &contested{}, make(chan string, 100), full() // reports of the older one
		start := func(h *hook.Hook) (stop func(), log *logText) {
			return server.keep(t, RegistrarOptions{Hooks: []*hook.Hook{h}, Target: keep.Target{
				Report: func(_ hook.Kind, _ []string, _ string, err error) {
					if h == hooks[0] {
						reports <- fmt.Sprint(err)
					}
				},
			}})
		}
		check := func(when string, webhooks int, report string) {
			t.Helper()
			synctest.Wait()
			server.mu.Lock()
			defer server.mu.Unlock()
			last := ""
			for len(reports) > 0 {
				last = <-reports
			}
			if n := len(server.live.Webhooks); n != webhooks || !strings.Contains(last, report) {
				t.Errorf("%s: %d webhooks, reported is %s", when, n, last)
			}
		}
		stopOlder, log := start(hooks[0])
		defer stopOlder()
		time.Sleep(time.Second)
		check("at first", 2, "<nil>")
		stopNewer, _ := start(hooks[1])
		check("beside the newer one", 1, "")
		time.Sleep(2 * time.Minute)
		check("later", 1, `with the Service ns/svc has changed the webhook configuration, the next write of this operator follows in`)
		stopNewer()
		time.Sleep(leaveFor)
		check("after the newer one", 2, "<nil>")
		if n := strings.Count(log.String(), "Another client changes the webhook configuration"); n != 1 {
			t.Errorf("want one record:\n%s", log)
		}
	})
}

// A configuration that a chart creates is written by an operator that may only update it, and keeps its creator. One that the operator has
// created, and may not remove, is emptied. Until it exists, and while it cannot be emptied, that is reported.
func TestFewPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, report := &contested{forbids: http.MethodPost + http.MethodDelete}, ""
		o := RegistrarOptions{Hooks: quietFull(), Target: keep.Target{Report: func(_ hook.Kind, _ []string, _ string, err error) {
			report = fmt.Sprint(err)
		}}}
		change := func(do func()) {
			server.mu.Lock()
			do()
			server.mu.Unlock()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
		}
		check := func(when, creator string, webhooks int, want string) {
			t.Helper()
			server.mu.Lock()
			defer server.mu.Unlock()
			if !strings.HasPrefix(report, want) || len(server.live.Webhooks) != webhooks || server.live.Labels[managedByLabel] != creator {
				t.Errorf("%s: reported is %s, the object is %+v", when, report, server.live)
			}
		}
		stop, _ := server.keep(t, o)
		change(func() {})
		if want := "there is no " + validating.name + ` "example-hooks", and no permission to create it: create it without webhooks, ` +
			`as 'shell-operator rbac' prints it, and the chart with webhooks.validating: `; !strings.HasPrefix(report, want) {
			t.Errorf("reported is %s, want %s", report, want)
		}
		change(func() {
			server.live = &configuration{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{managedByLabel: "Helm"}}}
		})
		check("created", "Helm", 3, "<nil>")
		stop()
		o.Hooks, server.forbids, server.live.Labels[managedByLabel] = nil, http.MethodPut+http.MethodDelete, managedBy
		stop, log := server.keep(t, o)
		defer stop()
		change(func() {})
		check("without hooks", managedBy, 3, "no permission for validatingwebhookconfigurations")
		if !strings.Contains(log.String(), "with failure policy Fail they block requests") {
			t.Errorf("logged is\n%s", log)
		}
		change(func() { server.forbids = http.MethodDelete })
		check("with the permission to update", managedBy, 0, "<nil>")
		if n := strings.Count(log.String(), "is emptied"); n != 1 {
			t.Errorf("it was emptied %d times", n)
		}
	})
}

// With cert-manager the CA is the one that cert-manager writes, also after another client has changed another field. Without it the
// annotation goes: it would write another CA.
func TestCertManager(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &contested{}
		o := RegistrarOptions{Hooks: quietFull(), Target: keep.Target{CertManager: "ns/cert",
			Bundle: func() []byte { return []byte("not asked") }}}
		check := func(annotation, ca string) {
			t.Helper()
			time.Sleep(2 * time.Minute)
			synctest.Wait()
			server.mu.Lock()
			defer server.mu.Unlock()
			if server.live.Annotations[keep.InjectAnnotation] != annotation || len(server.live.Webhooks) != 3 {
				t.Errorf("got %+v", server.live)
			}
			for _, w := range server.live.Webhooks {
				if string(w.ClientConfig.CABundle) != ca {
					t.Errorf("webhook %s has the CA %q", w.Name, w.ClientConfig.CABundle)
				}
			}
		}
		stop, _ := server.keep(t, o)
		check("ns/cert", "")
		server.mu.Lock()
		for i := range server.live.Webhooks {
			server.live.Webhooks[i].ClientConfig.CABundle = []byte("injected")
		}
		server.live.Webhooks = server.live.Webhooks[1:]
		server.mu.Unlock()
		check("ns/cert", "injected")
		stop()
		o.CertManager, o.Bundle = "", nil
		stop, _ = server.keep(t, o)
		defer stop()
		check("", "")
	})
}

// Another client edits, empties and deletes the object at any time, and the API server rejects writes: no write removes what is registered,
// they are limited, and when both cease the object is as desired.
func TestHostileWriter(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		type step struct {
			after time.Duration
			does  string
			code  int
		}
		steps := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) step {
			return step{time.Duration(rapid.IntRange(0, 600).Draw(rt, "after")) * time.Second,
				rapid.SampledFrom([]string{"edits", "empties", "deletes", "rejects", "rejects"}).Draw(rt, "does"),
				rapid.SampledFrom([]int{0, 403, 409, 422, 500}).Draw(rt, "code")}
		}), 0, 15).Draw(rt, "steps")
		synctest.Test(t, func(t *testing.T) {
			server := &contested{}
			r, _ := newRegistrar(t, RegistrarOptions{Hooks: full(), Target: keep.Target{Client: server.client(t), Service: svc}})
			k := r.keepers[0]
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { k.Object.Run(ctx); close(ended) }()
			begun := time.Now()
			for _, s := range steps {
				time.Sleep(s.after)
				server.mu.Lock()
				switch {
				case s.does == "rejects":
					server.rejects = append(server.rejects, s.code)
				case server.live == nil || len(server.live.Webhooks) == 0:
				case s.does == "deletes":
					server.live = nil
				case s.does == "empties":
					server.live.Webhooks = nil
				default:
					server.live.Webhooks[0].SideEffects = nil
				}
				server.mu.Unlock()
			}
			time.Sleep(time.Hour)
			server.mu.Lock()
			defer server.mu.Unlock()
			if live, want := server.live, k.desired(server.live, nil); live == nil || !equality.Semantic.DeepEqual(live.Webhooks, want.Webhooks) {
				t.Errorf("the object is %+v", live)
			}
			// each rejection is tried again, a conflict up to five times; each poll may restore once
			if most := 1 + 2*len(steps) + int(time.Since(begun)/keep.RestoreEvery); server.writes > most || len(server.wrong) > 0 {
				t.Errorf("%d writes, at most %d; %v", server.writes, most, server.wrong)
			}
			select {
			case <-ended:
				t.Error("run has ended")
			default:
			}
			stop()
			server.mu.Unlock()
			<-ended
			server.mu.Lock()
		})
		if t.Failed() {
			rt.Fatalf("%+v", steps)
		}
	})
}
