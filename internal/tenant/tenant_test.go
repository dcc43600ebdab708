package tenant

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// server is the edge to an API server that grants tokens. It runs in the time of the test.
type server struct {
	t *testing.T

	mu sync.Mutex
	// grants is the lifetime of tokens. refuse answers requests for tokens, revoked rejects those that were granted so far.
	grants  time.Duration
	refuse  func() (status int, reason, message string)
	granted map[string]string // account by token
	revoked map[string]bool
	// asked are the requests for tokens, by the age of the server; seen are the others: who sends them.
	made        time.Time
	asked, seen []string
	delay       time.Duration
}

func newServer(t *testing.T) *server {
	return &server{t: t, grants: time.Hour, granted: map[string]string{}, revoked: map[string]bool{}, made: time.Now()}
}

func (s *server) answer(status int, body any) *http.Response {
	text, err := json.Marshal(body)
	if err != nil {
		s.t.Error(err)
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(bytes.NewReader(text))}
}

func (s *server) RoundTrip(req *http.Request) (*http.Response, error) {
	s.mu.Lock()
	delay := s.delay
	s.mu.Unlock()
	select {
	case <-time.After(delay):
	case <-req.Context().Done():
		return nil, req.Context().Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	status := func(code int, reason, message string) (*http.Response, error) {
		return s.answer(code, map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "reason": reason,
			"message": message}), nil
	}
	token := strings.TrimPrefix(req.Header.Get("Authorization"), "Bearer ")
	if !strings.HasSuffix(req.URL.Path, "/token") {
		of := s.granted[token]
		if s.revoked[token] {
			s.seen = append(s.seen, "rejected "+of)
			return status(http.StatusUnauthorized, "Unauthorized", "Unauthorized")
		}
		s.seen = append(s.seen, of+" "+token)
		return s.answer(http.StatusOK, map[string]any{}), nil
	}
	s.asked = append(s.asked, time.Since(s.made).String())
	if token != "operator" {
		s.t.Errorf("a token is requested with %q", token)
	}
	if s.refuse != nil {
		return status(s.refuse())
	}
	var r authentication.TokenRequest
	if err := json.NewDecoder(req.Body).Decode(&r); err != nil || len(r.Spec.Audiences) > 0 || r.Spec.BoundObjectRef != nil ||
		*r.Spec.ExpirationSeconds != 3600 {
		s.t.Errorf("request %+v, %v", r, err)
	}
	parts := strings.Split(req.URL.Path, "/")
	of := parts[4] + "/" + parts[6]
	r.Status.Token = fmt.Sprintf("token-%d", len(s.granted)+1)
	s.granted[r.Status.Token] = of
	seconds := int64(s.grants / time.Second)
	r.Spec.ExpirationSeconds = &seconds
	r.Status.ExpirationTimestamp.Time = time.Now().Add(-48 * time.Hour) // a clock that is wrong
	return s.answer(http.StatusCreated, r), nil
}

// with makes a change.
func (s *server) with(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	do()
}

// requests returns when tokens were requested, and who has sent other requests, since the last call.
func (s *server) requests() (asked, seen []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked, seen = s.asked, s.seen
	s.asked, s.seen = nil, nil
	return asked, seen
}

var (
	shop  = &hook.Tenant{Name: "shop", Folder: "shop/", ServiceAccount: hook.ServiceAccount{Namespace: "shop", Name: "hooks"}}
	paint = &hook.Tenant{Name: "paint", Folder: "paint/", ServiceAccount: hook.ServiceAccount{Namespace: "paint", Name: "hooks"}}
)

func hooksOf(tenants ...*hook.Tenant) (hooks []*hook.Hook) {
	for _, t := range tenants {
		hooks = append(hooks, &hook.Hook{Name: "h", Tenant: t})
	}
	return hooks
}

// world is a running Tenants with its server.
type world struct {
	*server
	*Tenants
	log     *bytes.Buffer
	changed *atomic.Int32
}

// in runs a test with the tenants of shop and paint in a time of its own.
func in(t *testing.T, do func(t *testing.T, w world)) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		w := world{server: newServer(t), log: &bytes.Buffer{}, changed: new(atomic.Int32)}
		var err error
		w.Tenants, err = New(Options{
			Config: &rest.Config{Host: "http://api", BearerToken: "operator", Transport: bearerOf("operator", w.server)}, Dir: dir + "/tokens",
			Complete: func(c *rest.Config) *rest.Config { c.Transport = w.server; return c },
			Log:      slog.New(slog.NewTextHandler(w.log, nil)),
			Changed:  func() { w.changed.Add(1) },
		})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { w.Run(ctx); close(ended) }()
		w.Use(hooksOf(paint, shop, shop))
		synctest.Wait()
		do(t, w)
		cancel()
		<-ended
		if strings.Contains(w.log.String(), "token-") {
			t.Errorf("the log has a token:\n%s", w.log)
		}
		if _, err := os.Stat(dir + "/tokens"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("files of tokens are left: %v", err)
		}
	})
}

// bearerOf adds the credentials of the operator, which rest does not do for a transport of our own.
type withToken struct {
	token string
	next  http.RoundTripper
}

func bearerOf(token string, next http.RoundTripper) http.RoundTripper { return withToken{token, next} }

func (w withToken) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set("Authorization", "Bearer "+w.token)
	return w.next.RoundTrip(req)
}

func (w world) send(of *hook.Tenant) error {
	ctx, cancel := context.WithTimeout(w.t.Context(), time.Minute)
	defer cancel()
	_, err := kube.Send(ctx, w.Account(of).Client.Get().AbsPath("/api"))
	return err
}

// file is the path of the token of a tenant.
func (w world) file(of *hook.Tenant) string {
	path, err := w.TokenFile(of)
	if err != nil {
		w.t.Error(err)
	}
	return path
}

// revoke rejects the tokens that were granted so far.
func (w world) revoke() {
	w.with(func() {
		for token := range w.granted {
			w.revoked[token] = true
		}
	})
}

func equal(t *testing.T, what string, got []string, want ...string) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("%s: %q, want %q", what, got, want)
	}
}

// A token is renewed at 80 % of what was granted. The client that is there sends the new one, and the file has it.
func TestRenewal(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		asked, _ := w.requests()
		equal(t, "requests", asked, "0s", "0s")
		w.with(func() { w.grants = 10 * time.Minute })
		time.Sleep(time.Hour - time.Second)
		asked, _ = w.requests()
		equal(t, "requests", asked, "48m0s", "48m0s", "56m0s", "56m0s")
		client, file := w.Account(shop), w.file(shop)
		for range 2 {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := kube.Send(t.Context(), client.Client.Get().AbsPath("/api")); err != nil {
				t.Error(err)
			}
			_, seen := w.requests()
			equal(t, "sent", seen, "shop/hooks "+string(text))
			if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("%v, %v", info.Mode(), err)
			}
			time.Sleep(9 * time.Minute)
		}
		if client.Name != "shop/hooks" || w.Waits(shop) != "" {
			t.Errorf("%s waits: %s", client.Name, w.Waits(shop))
		}
	})
}

// While tokens cannot be renewed, the last one is used until it expires. Then the tenant waits, and nothing is sent without one.
func TestNoToken(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		w.changed.Store(0)
		refuse := func() (int, string, string) {
			return http.StatusForbidden, "Forbidden", `serviceaccounts "hooks" is forbidden: User "operator" cannot create resource ` +
				`"serviceaccounts/token" in API group "" in the namespace "shop"`
		}
		w.with(func() { w.refuse = refuse })
		w.requests()
		time.Sleep(48*time.Minute + 2*time.Minute + 2*time.Second) // a timer of the same moment may fire later
		synctest.Wait()
		asked, _ := w.requests()
		equal(t, "requests of one", unique(asked), "48m0s", "48m1s", "48m3s", "48m7s", "48m15s", "48m31s", "49m1s", "49m31s", "50m1s")
		status := w.Status()
		hint := `give the operator's ServiceAccount, by a Role in namespace "shop" (or a ClusterRole), the rule ` +
			`{apiGroups: [""], resources: ["serviceaccounts/token"], resourceNames: ["hooks"], verbs: ["create"]}`
		if s := status[1]; s.Name != "shop" || !s.Ready || s.Missing || !strings.HasSuffix(s.Problem, hint) || w.Waits(shop) != "" {
			t.Errorf("status %+v", s)
		}
		if err := w.send(shop); err != nil || w.changed.Load() != 0 {
			t.Errorf("%v, %d changes", err, w.changed.Load())
		}
		time.Sleep(10 * time.Minute)
		w.requests()
		if err := w.send(shop); err == nil || !errors.As(err, new(*NoTokenError)) || kube.IsPermissionMissing(err) || w.changed.Load() == 0 {
			t.Errorf("%v, %d changes", err, w.changed.Load())
		}
		if _, seen := w.requests(); len(seen) > 0 {
			t.Errorf("sent %q", seen)
		}
		if want := "there is no token of the account shop/hooks: "; !strings.HasPrefix(w.Waits(shop), want) || w.Status()[1].Ready {
			t.Errorf("waits: %s", w.Waits(shop))
		}
		w.with(func() { w.refuse = nil })
		before := w.changed.Load()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		if err := w.send(shop); err != nil || w.Waits(shop) != "" || w.changed.Load() != before+2 || w.Status()[1].Problem != "" {
			t.Errorf("%v, waits %s, %d changes", err, w.Waits(shop), w.changed.Load()-before)
		}
		if n := strings.Count(w.log.String(), "Cannot get a token"); n != 2 {
			t.Errorf("%d records for 2 accounts:\n%s", n, w.log)
		}
	})
}

func unique(list []string) []string { return slices.Compact(slices.Clone(list)) }

// A token that the API server rejects is not sent again, and replaced immediately. Of an account that was deleted, the tenant waits.
func TestRejectedToken(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		time.Sleep(time.Minute)
		w.requests()
		w.revoke()
		if err := w.send(shop); err == nil {
			t.Error("a rejected token is accepted")
		}
		synctest.Wait()
		if err := w.send(shop); err != nil {
			t.Error(err)
		}
		asked, seen := w.requests()
		equal(t, "requests", asked, "1m0s")
		equal(t, "sent", seen, "rejected shop/hooks", "shop/hooks token-3")
		w.with(func() {
			w.revoked["token-3"] = true
			w.refuse = func() (int, string, string) {
				return http.StatusNotFound, "NotFound", `serviceaccounts "hooks" not found`
			}
		})
		if err := w.send(shop); err == nil {
			t.Error("a rejected token is accepted")
		}
		synctest.Wait()
		if err := w.send(shop); !errors.As(err, new(*NoTokenError)) || apierrors.IsNotFound(err) {
			t.Error(err)
		}
		time.Sleep(2 * time.Second)
		if s := w.Status(); !s[1].Missing || s[1].Ready || !s[0].Ready || s[0].Missing || w.Waits(paint) != "" {
			t.Errorf("status %+v", s)
		}
	})
}

// An API server that rejects what it grants is not asked without end.
func TestEachTokenRejected(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		w.requests()
		began := time.Now()
		for range 100 {
			w.revoke()
			_ = w.send(shop)
			time.Sleep(100 * time.Millisecond)
		}
		if asked, _ := w.requests(); len(asked) > int(time.Since(began)/minRetry)+1 {
			t.Errorf("requests %q in %s", asked, time.Since(began))
		}
	})
}

// A token that only processes of hooks send is checked when a run has failed, every 10 seconds at most, and replaced if it is rejected.
func TestDoubt(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		time.Sleep(time.Minute)
		w.requests()
		doubt := func() {
			w.Doubt(shop)
			synctest.Wait()
		}
		read := func() string {
			text, err := os.ReadFile(w.file(shop))
			if err != nil {
				t.Error(err)
			}
			return string(text)
		}
		first := read()
		doubt()
		doubt()
		asked, seen := w.requests()
		equal(t, "requests", asked)
		equal(t, "sent", seen, "shop/hooks "+first)
		w.revoke()
		time.Sleep(checkInterval - time.Second)
		doubt()
		_, seen = w.requests()
		equal(t, "sent", seen)
		time.Sleep(time.Second)
		doubt()
		asked, seen = w.requests()
		equal(t, "requests", asked, "1m10s")
		equal(t, "sent", seen, "rejected shop/hooks")
		if read() == first || w.Waits(shop) != "" {
			t.Errorf("the file has %s, waits %s", read(), w.Waits(shop))
		}
	})
}

// A file that was removed is written again when a hook needs it.
func TestTokenFileRemoved(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		path := w.file(shop)
		before, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.RemoveAll(w.opts.Dir); err != nil {
			t.Fatal(err)
		}
		after, err := os.ReadFile(w.file(shop))
		if info, statErr := os.Stat(path); err != nil || statErr != nil || string(after) != string(before) || info.Mode().Perm() != 0o600 {
			t.Errorf("%q, not %q: %v %v", after, before, err, statErr)
		}
		w.Use(nil)
		synctest.Wait()
		if _, err := os.Stat(w.file(shop)); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("the file of an account that has ended: %v", err)
		}
	})
}

// Requests before the first token wait for it.
func TestFirstToken(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		w.with(func() { w.delay = 3 * time.Second })
		w.Use(nil)
		w.Use(hooksOf(shop))
		began := time.Now()
		if err := w.send(shop); err != nil || time.Since(began) != 6*time.Second {
			t.Errorf("%v after %s", err, time.Since(began))
		}
	})
}

// The account of no tenant ends, with its file; one that two tenants have stays with the other one.
func TestUse(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		other := &hook.Tenant{Name: "other", Folder: "other/", ServiceAccount: shop.ServiceAccount}
		file, client := w.file(shop), w.Account(shop).Client
		w.requests()
		w.Use(hooksOf(other, nil))
		synctest.Wait()
		if err := w.send(shop); err != nil || len(w.Status()) != 1 || w.Waits(paint) == "" {
			t.Errorf("%v, status %+v, paint waits: %s", err, w.Status(), w.Waits(paint))
		}
		w.Use(nil)
		synctest.Wait()
		if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
		_, err := kube.Send(t.Context(), client.Get().AbsPath("/api"))
		none := &NoTokenError{}
		if !errors.As(err, &none) || !errors.Is(none.Err, errEnded) || !strings.Contains(w.Waits(shop), errEnded.Error()) ||
			len(w.Status()) != 0 {
			t.Errorf("%v, waits %s", err, w.Waits(shop))
		}
		asked, _ := w.requests()
		equal(t, "requests", asked)
	})
}

// An account that ends and begins again while a token is requested for it keeps its file.
func TestUseAgain(t *testing.T) {
	in(t, func(t *testing.T, w world) {
		w.with(func() { w.delay = 3 * time.Second })
		w.Use(hooksOf(paint))
		w.Use(hooksOf(paint, shop))
		synctest.Wait()
		w.Use(hooksOf(paint)) // while its first token is requested
		time.Sleep(time.Second)
		w.with(func() { w.delay = 0 })
		w.Use(hooksOf(paint, shop))
		time.Sleep(time.Minute)
		if _, err := os.Stat(w.file(shop)); err != nil || w.Waits(shop) != "" {
			t.Errorf("%v, waits %s", err, w.Waits(shop))
		}
	})
}
