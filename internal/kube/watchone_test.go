package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
)

// stubServer answers every request with one status and body.
type stubServer struct {
	status int
	body   string
	last   *http.Request
}

func (s *stubServer) RoundTrip(r *http.Request) (*http.Response, error) {
	s.last = r
	return &http.Response{StatusCode: s.status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(s.body)), Request: r}, nil
}

func TestOneWatch(t *testing.T) {
	for _, test := range []struct {
		name, body string
		status     int
		want, err  string
	}{
		{"changes", `{"type":"ADDED","object":{"a":1}}` + "\n" + `{"type":"MODIFIED","object":{"a":2}}{"type":"DELETED","object":{"a":2}}`, 200,
			`opened {"a":1} {"a":2} nil`, "<nil>"},
		{"a broken connection", `{"type":"ADDED","object":{"a":1}}{"type":"MODIF`, 200, `opened {"a":1}`, "<nil>"},
		{"an error event", `{"type":"ERROR","object":{"kind":"Status","status":"Failure","reason":"Expired",` +
			`"message":"too old resource version: 1 (2)","code":410}}`,
			200, "opened", "too old resource version: 1 (2)"},
		{"a secret value is not quoted", `{"type":"ADDED","object":{"a":"swordfish"x`, 200, "opened",
			"the API server sent an event that cannot be decoded"},
		{"forbidden", `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"Unauthorized","code":403}`, 403, "",
			"Unauthorized"},
	} {
		t.Run(test.name, func(t *testing.T) {
			server := &stubServer{status: test.status, body: test.body}
			client, err := NewClient(&rest.Config{Host: "https://stub", Transport: server, QPS: -1})
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			err = One{Client: client, Path: []string{"/api/v1/namespaces", "ns", "secrets"}, Name: "tls"}.Watch(t.Context(), func() {
				got = append(got, "opened")
			},
				func(deleted bool, object []byte) {
					if deleted {
						object = []byte("nil")
					}
					got = append(got, string(object))
				})
			if s := strings.Join(got, " "); s != test.want || fmt.Sprint(err) != test.err {
				t.Errorf("got %s, error %v; want %s, error %s", s, err, test.want, test.err)
			}
			if q := server.last.URL; q.Path != "/api/v1/namespaces/ns/secrets" || q.Query().Get("fieldSelector") != "metadata.name=tls" ||
				q.Query().Get("watch") != "true" {
				t.Errorf("it asked for %s", q)
			}
		})
	}
}

// Failures are retried with back-off, a missing permission rarely, and a watch that lasted resets the delay.
func TestWatchOneBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "leases"}, "l", errors.New("no"))
		results := []error{errors.New("a"), errors.New("b"), errors.New("c"), forbidden, forbidden, nil, errors.New("d")}
		ctx, stop := context.WithCancel(t.Context())
		var pauses []time.Duration
		last, closed := time.Now(), 0
		WatchOne(ctx, Backoff{Min: 2 * time.Second, Max: 8 * time.Second}, func(ctx context.Context) error {
			pauses = append(pauses, time.Since(last))
			if len(pauses) > len(results) {
				stop()
				return ctx.Err()
			}
			err := results[len(pauses)-1]
			if err == nil {
				time.Sleep(10 * time.Minute)
			}
			last = time.Now()
			return err
		}, func(error) { closed++ })
		for i, limit := range []time.Duration{0, 2 * time.Second, 4 * time.Second, 8 * time.Second, time.Minute, time.Minute,
			2 * time.Second, 4 * time.Second} {
			if pauses[i] > limit || pauses[i] < limit/2 {
				t.Errorf("pause %d is %s, want %s to %s", i, pauses[i], limit/2, limit)
			}
		}
		if closed != len(results) {
			t.Errorf("%d ends were reported, want %d", closed, len(results))
		}
		if !slices.Equal(pauses[4:6], []time.Duration{time.Minute, time.Minute}) {
			t.Errorf("pauses while forbidden: %s", pauses[4:6])
		}
	})
}

// silent is a server whose connection has died: its response has no end.
type silent struct{}

func (silent) RoundTrip(req *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: untilDone{req.Context()}}, nil
}

type untilDone struct{ ctx context.Context }

func (u untilDone) Read([]byte) (int, error) { <-u.ctx.Done(); return 0, u.ctx.Err() }
func (u untilDone) Close() error             { return nil }

// A watch on a connection that has died silently ends a little after the server should have ended it.
func TestDeadConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		client, err := NewClient(&rest.Config{Host: "https://stub", Transport: silent{}, QPS: -1})
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		one := One{Client: client, Path: []string{"/api/v1/namespaces", "ns", "secrets"}, Name: "tls"}
		err = one.Watch(t.Context(), nil, func(bool, []byte) {})
		if took := time.Since(start); err != nil || took < 5*time.Minute || took > 11*time.Minute {
			t.Errorf("it ended after %s with %v", took, err)
		}
	})
}
