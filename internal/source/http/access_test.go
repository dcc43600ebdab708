package http

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/hook"
	"github.com/shell-operator/shell-operator/internal/test"
)

// authority is a fake of the API server: the token "jane" is that of the user jane, in the group ops, and so on.
// Permissions are in rights, as "user verb path".
type authority struct {
	mu sync.Mutex
	// asked are the reviews that it received.
	asked  []string
	rights map[string]bool
	// status, if set, is all that it answers.
	status int
}

func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var review struct {
		Kind string
		Spec struct {
			Token, User           string
			NonResourceAttributes struct{ Verb, Path string }
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		return nil, err
	}
	var answer string
	if spec := review.Spec; review.Kind == "TokenReview" {
		a.asked = append(a.asked, "who is "+spec.Token)
		known := spec.Token == "jane" || spec.Token == "joe"
		answer = fmt.Sprintf(`{"status":{"authenticated":%v,"user":{"username":%q,"uid":"1","groups":["system:authenticated",%q]}}}`, known,
			spec.Token, spec.Token+"s")
	} else {
		right := spec.User + " " + spec.NonResourceAttributes.Verb + " " + spec.NonResourceAttributes.Path
		a.asked = append(a.asked, "may "+right)
		answer = fmt.Sprintf(`{"status":{"allowed":%v}}`, a.rights[right])
	}
	status := http.StatusCreated
	if a.status != 0 {
		status, answer = a.status, `{"kind":"Status","message":"secret"}`
	}
	return &http.Response{StatusCode: status, Header: http.Header{"Content-Type": {"application/json"}},
		Body: io.NopCloser(strings.NewReader(answer)), Request: r}, nil
}

func (a *authority) questions() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	text := strings.Join(a.asked, ", ")
	a.asked = nil
	return text
}

func (a *authority) access(t testing.TB, log *test.Text) *Access {
	t.Helper()
	config := rest.ClientContentConfig{
		ContentType: runtime.ContentTypeJSON, GroupVersion: schema.GroupVersion{Version: "v1"},
		Negotiator: runtime.NewClientNegotiator(serializer.NewCodecFactory(runtime.NewScheme()).WithoutConversion(),
			schema.GroupVersion{Version: "v1"}),
	}
	client, err := rest.NewRESTClient(mustURL("https://cluster"), "", config, nil, &http.Client{Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	return NewAccess(client, slog.New(slog.NewTextHandler(log, nil)))
}

func TestAccess(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &authority{rights: map[string]bool{"jane get /a/1": true, "jane post /a/1": false}}
		log := &test.Text{}
		handler, requests := newHandler(t, Options{Runner: echoes, Access: cluster.access(t, log)},
			"a.sh GET /a/{x}\na.sh POST /a/{x}\na.sh GET /ops\na.sh GET /janes")
		for _, r := range handler.routes {
			switch r.binding.Path {
			case "/ops":
				r.binding.Allow = &hook.Allow{Users: []string{"joe"}}
			case "/janes":
				r.binding.Allow = &hook.Allow{Groups: []string{"other", "janes"}}
			}
		}
		for _, tt := range []struct {
			method, target, token string
			status                int
			want, asked           string
		}{
			{"GET", "/a/1", "", 401, "a bearer token of the cluster is required", ""},
			{"GET", "/nothing", "", 401, "a bearer token of the cluster is required", ""},
			{"OPTIONS", "/a/1", "", 401, "a bearer token of the cluster is required", ""},
			{"GET", "/openapi.json", "", 401, "a bearer token of the cluster is required", ""},
			{"GET", "/a/1", "Basic jane", 401, "a bearer token of the cluster is required", ""},
			{"GET", "/a/1", "Bearer ", 401, "a bearer token of the cluster is required", ""},
			{"GET", "/a/1", "Bearer secret", 401, "the cluster does not know the token", "who is secret"},
			{"GET", "/a/1", "Bearer secret", 401, "the cluster does not know the token", ""},
			{"GET", "/a/1", "bearer jane", 200, `GET /a/{x}: GET /a/1 map[x:1] map[] map[] "" jane`, "who is jane, may jane get /a/1"},
			{"GET", "/a/1", "Bearer jane", 200, `GET /a/{x}: GET /a/1 map[x:1] map[] map[] "" jane`, ""},
			{"HEAD", "/a/1", "Bearer jane", 200, ``, ""},
			{"POST", "/a/1", "Bearer jane", 403, `user "jane" is not allowed to do this`, "may jane post /a/1"},
			{"GET", "/a/2", "Bearer jane", 403, `user "jane" is not allowed to do this`, "may jane get /a/2"},
			{"GET", "/a/1", "Bearer joe", 403, `user "joe" is not allowed to do this`, "who is joe, may joe get /a/1"},
			{"GET", "/ops", "Bearer joe", 200, `GET /ops: GET /ops map[] map[] map[] "" joe`, ""},
			{"GET", "/ops", "Bearer jane", 403, `user "jane" is not allowed to do this`, ""},
			{"GET", "/janes", "Bearer jane", 200, `GET /janes: GET /janes map[] map[] map[] "" jane`, ""},
			{"GET", "/janes", "Bearer joe", 403, `user "joe" is not allowed to do this`, ""},
			{"GET", "/nothing", "Bearer joe", 404, `no hook serves this path; /openapi.json lists the paths`, ""},
			{"OPTIONS", "/ops", "Bearer jane", 204, ``, ""},
		} {
			w := ask(t.Context(), handler, tt.method, tt.target, "", "Authorization: "+tt.token, "Host: anything")
			got := w.Body.String()
			if w.Code >= 400 {
				got = errorIn(t, w)
			}
			if asked := cluster.questions(); w.Code != tt.status || got != tt.want || asked != tt.asked {
				t.Errorf("%s %s by %q:\n got %d %s; %s\nwant %d %s; %s", tt.method, tt.target, tt.token, w.Code, got, asked, tt.status,
					tt.want, tt.asked)
			}
			if (w.Header().Get("WWW-Authenticate") != "") != (w.Code == 401) {
				t.Errorf("%s %s: WWW-Authenticate is %q", tt.method, tt.target, w.Header().Get("WWW-Authenticate"))
			}
		}
		// A revoked permission expires from the cache.
		cluster.rights = nil
		if w := ask(t.Context(), handler, "GET", "/a/1", "", "Authorization: Bearer jane"); w.Code != 200 {
			t.Errorf("immediately: got %d", w.Code)
		}
		time.Sleep(cacheFor + 1)
		if w := ask(t.Context(), handler, "GET", "/a/1", "", "Authorization: Bearer jane"); w.Code != 403 {
			t.Errorf("later: got %d", w.Code)
		}
		cluster.questions()
		// Without the API server all requests are rejected, and no result is cached.
		time.Sleep(cacheFor + 1)
		for _, status := range []int{403, 500, 0} {
			cluster.status = status
			want := 503
			if status == 0 {
				want = 403
			}
			w := ask(t.Context(), handler, "GET", "/a/1", "", "Authorization: Bearer jane")
			if w.Code != want {
				t.Errorf("the API server answers %d: got %d %s", status, w.Code, w.Body)
			}
			errorIn(t, w)
		}
		if !strings.Contains(log.String(), "may the operator create tokenreviews?") {
			t.Errorf("log:\n%s", log)
		}
		if strings.Contains(log.String()+requests.String(), "who is secret") || strings.Contains(requests.String(), "token=") {
			t.Errorf("a token is in the log:\n%s%s", log, requests)
		}
	})
}

// Many unauthenticated requests are rejected fast, and do not delay other requests to the API server.
func TestManyStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		log := &test.Text{}
		a := NewAccess(nil, slog.New(slog.NewTextHandler(log, nil)))
		config := rest.ClientContentConfig{ContentType: runtime.ContentTypeJSON}
		client, err := rest.NewRESTClient(mustURL("https://cluster"), "", config, nil,
			&http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
				select {
				case <-free:
				case <-r.Context().Done():
				}
				return nil, context.Canceled
			})})
		if err != nil {
			t.Fatal(err)
		}
		a.client = client
		handler, _ := newHandler(t, Options{Runner: echoes, Access: a}, "a.sh GET /a")
		codes := make(chan *httptest.ResponseRecorder, 200)
		for i := range 200 {
			go func() {
				codes <- ask(t.Context(), handler, "GET", "/a", "", fmt.Sprintf("Authorization: Bearer %d", i))
			}()
		}
		synctest.Wait()
		if refused := len(codes); refused != 200-reviewsInFlight-reviewsWaiting {
			t.Errorf("%d are rejected immediately", refused)
		}
		close(free)
		for range 200 {
			if w := <-codes; w.Code != 503 {
				t.Errorf("got %d", w.Code)
			}
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
