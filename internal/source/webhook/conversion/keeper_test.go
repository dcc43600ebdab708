package conversion

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/source/webhook/keep"
)

// edited is an API server whose CRD another client edits after each write, until a time; watching is forbidden, and with the permissions of
// an old installation all but get and update.
type edited struct {
	began time.Time
	until time.Duration
	old   bool

	mu      sync.Mutex
	writes  []string
	crd     []byte
	changed chan struct{}
}

// edit changes the CRD. It requires mu.
func (e *edited) edit() {
	e.crd = []byte(unconverted)
	close(e.changed)
	e.changed = make(chan struct{})
}

const unconverted = `{"metadata":{"name":"` + widgets + `"},"spec":{"conversion":{"strategy":"None"}}}`

func (e *edited) RoundTrip(r *http.Request) (*http.Response, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	status, body := http.StatusOK, ""
	switch now := time.Since(e.began); {
	case r.URL.Query().Get("watch") != "", e.old && (r.Method == http.MethodPatch || r.URL.Path == crdPath):
		status, body = http.StatusForbidden, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403}`
	case r.Method != http.MethodGet:
		e.writes = append(e.writes, now.Round(time.Second).String())
		text, err := io.ReadAll(r.Body)
		if err == nil && r.Method == http.MethodPatch {
			text, err = jsonpatch.MergePatch(e.crd, text)
		}
		if err != nil {
			return nil, err
		}
		e.crd = text
		if now < e.until {
			e.edit()
		}
	case r.URL.Path == crdPath:
		body = `{"items":[` + string(e.crd) + `]}`
	default:
		body = string(e.crd)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(body)), Request: r}, nil
}

// complete adds that all hooks are ready, and functions without an effect.
func complete(t keep.Target) keep.Target {
	t.Ready, t.Seen = func(*hook.Hook, hook.Address) bool { return true }, func(string, []string, bool) {}
	t.Report = func(hook.Kind, []string, string, error) {}
	return t
}

// play runs a Registrar beside the steps of another client, until they end.
func (e *edited) play(t *testing.T, log *bytes.Buffer, bundle func() []byte, steps func()) {
	t.Helper()
	e.began, e.crd, e.changed = time.Now(), []byte(unconverted), make(chan struct{})
	client, err := kube.NewClient(&rest.Config{Host: "https://offline", Transport: e, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	target := complete(keep.Target{Client: client, URL: "https://127.0.0.1:1", Bundle: bundle, Log: slog.New(slog.NewTextHandler(log, nil)),
		Changes: []func() <-chan struct{}{func() <-chan struct{} {
			e.mu.Lock()
			defer e.mu.Unlock()
			return e.changed
		}}})
	r := NewRegistrar(RegistrarOptions{Hooks: hooks(widgets, "v1>v2"), Converted: func(string) {}, Target: target})
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		defer cancel()
		steps()
	}()
	if err := r.Run(ctx); err != nil {
		t.Error(err)
	}
}

// What another client writes is restored immediately, with a back-off if it does so repeatedly, and immediately again after ten minutes.
func TestDispute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &edited{until: 5 * time.Minute}
		server.play(t, new(bytes.Buffer), func() []byte { return []byte("ca") }, func() {
			for _, after := range []time.Duration{16 * time.Minute, 100 * time.Millisecond} {
				time.Sleep(after)
				server.mu.Lock()
				server.edit()
				server.mu.Unlock()
			}
			time.Sleep(5 * time.Minute)
		})
		want := "0s 0s 1s 3s 8s 23s 1m23s 2m23s 3m23s 4m23s 5m23s 16m0s 16m1s"
		if got := strings.Join(server.writes, " "); got != want {
			t.Errorf("writes after %s, not %s", got, want)
		}
	})
}

// The permissions of an old installation are enough for the first registration and for new certificates. One record names the rule that is
// missing, as the example convert-crontab has it.
func TestOldPermissions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, log, bundle := &edited{old: true}, new(bytes.Buffer), []byte("ca")
		server.play(t, log, func() []byte {
			server.mu.Lock()
			defer server.mu.Unlock()
			return bundle
		}, func() {
			time.Sleep(10 * time.Second)
			server.mu.Lock()
			bundle = []byte("new")
			close(server.changed)
			server.changed = make(chan struct{})
			server.mu.Unlock()
			time.Sleep(5 * time.Minute)
		})
		if got := string(server.crd); strings.Join(server.writes, " ") != "0s 10s" || !strings.Contains(got, widgets) ||
			!strings.Contains(got, `"caBundle":"`+base64.StdEncoding.EncodeToString(bundle)) {
			t.Errorf("after writes at %s the CRD is %s", server.writes, got)
		}
		for _, text := range []string{"The CRD leads to the conversion hooks now", "The CRD has the new certificates", "No permission to watch",
			`verbs: [\"list\", \"watch\", \"patch\"]`} {
			if strings.Count(log.String(), text) != 1 {
				t.Errorf("%q is not once in the log:\n%s", text, log)
			}
		}
	})
}
