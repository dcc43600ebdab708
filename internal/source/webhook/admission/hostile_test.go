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
	"k8s.io/client-go/rest"
	"pgregory.net/rapid"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// contested is the object, in an API server that rejects some writes of the operator; watching is forbidden.
type contested struct {
	mu   sync.Mutex
	live *configuration
	// rejects are the statuses of the next writes, 0 accepts one.
	rejects []int
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
	case r.URL.Query().Get("watch") != "":
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

// Of two operators that want different webhooks the newer one gets them, as long as it is there.
func TestTwoVersions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, reports, hooks := &contested{}, make(chan string, 100), full() // reports of the older one
		start := func(h *hook.Hook) (stop func(), log *logText) {
			r, log := newRegistrar(t, RegistrarOptions{Hooks: []*hook.Hook{h}, Target: keep.Target{
				Client: server.client(t), Service: svc,
				Report: func(_ hook.Kind, _ []string, _ string, err error) {
					if h == hooks[0] {
						reports <- fmt.Sprint(err)
					}
				},
			}})
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan struct{})
			go func() { r.keepers[0].Object.Run(ctx); close(ended) }()
			return func() { cancel(); <-ended }, log
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
