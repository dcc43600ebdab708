package http

import (
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
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

// authority is a fake of the API server: the user jane, in the group janes, has the token "jane", and so on.
// Permissions are in rights, as "user verb path".
type authority struct {
	mu sync.Mutex
	// asked are the reviews that it received.
	asked  []string
	rights map[string]bool
	// status, if set, is all that it answers.
	status int
	// free is closed before it answers questions about strangers.
	free chan struct{}
}

func (a *authority) RoundTrip(r *http.Request) (*http.Response, error) {
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
	if strings.HasPrefix(review.Spec.Token, "stranger") {
		<-a.free
	}
	a.mu.Lock()
	defer a.mu.Unlock()
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
	client, err := rest.NewRESTClient(&url.URL{Scheme: "https", Host: "cluster"}, "", config, nil, &http.Client{Transport: a})
	if err != nil {
		t.Fatal(err)
	}
	return NewAccess(client, slog.New(slog.NewTextHandler(log, nil)))
}

// accessible is a handler with an Access to a cluster.
func accessible(t *testing.T, cluster *authority) (handler *Handler, log, requests *test.Text) {
	cluster.rights = map[string]bool{"jane get /a/1": true, "jane post /a/1": false}
	log = &test.Text{}
	handler, requests = newHandler(t, Options{Runner: echoes, Access: cluster.access(t, log)},
		"a.sh GET /a/{x}\na.sh POST /a/{x}\na.sh GET /ops\na.sh GET /janes")
	for _, r := range handler.routes {
		switch r.binding.Path {
		case "/ops":
			r.binding.Allow = &hook.Allow{Users: []string{"joe"}}
		case "/janes":
			r.binding.Allow = &hook.Allow{Groups: []string{"other", "janes"}}
		}
	}
	return handler, log, requests
}

// TestAccess runs testdata/access.txt.
func TestAccess(t *testing.T) {
	cluster := &authority{}
	handler, log, requests := accessible(t, cluster)
	play(t, "testdata/access.txt", handler, func(w *httptest.ResponseRecorder) (text string) {
		for _, name := range []string{"WWW-Authenticate", "Allow"} {
			if value := w.Header().Get(name); value != "" {
				text += name + ": " + value + "\n"
			}
		}
		if asked := cluster.questions(); asked != "" {
			text += "asked: " + asked + "\n"
		}
		return text
	})
	if all := log.String() + requests.String(); strings.Contains(all, "who is secret") || strings.Contains(all, "token=") {
		t.Errorf("a token is in the log:\n%s", all)
	}
}

// A revoked permission expires from the cache. Without the API server all requests are rejected, and no result is cached.
func TestAccessExpires(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cluster := &authority{}
		handler, log, _ := accessible(t, cluster)
		check := func(when string, want int) {
			t.Helper()
			w := ask(t.Context(), handler, "GET", "/a/1", "", "Authorization: Bearer jane")
			if w.Code != want {
				t.Errorf("%s: got %d %s", when, w.Code, w.Body)
			}
			if want != 200 {
				errorIn(t, w)
			}
		}
		check("at first", 200)
		cluster.rights = nil
		check("immediately", 200)
		time.Sleep(cacheFor + 1)
		check("later", 403)
		time.Sleep(cacheFor + 1)
		for _, status := range []int{403, 500} {
			cluster.status = status
			check(fmt.Sprint("the API server answers ", status), 503)
		}
		cluster.status = 0
		check("afterwards", 403)
		if !strings.Contains(log.String(), "may the operator create tokenreviews?") {
			t.Errorf("log:\n%s", log)
		}
	})
}

// Requests with tokens that are not accepted wait for the API server, four of each address beyond loopback. They keep no token waiting that
// was accepted within the last hour.
func TestManyStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		cluster := &authority{rights: map[string]bool{"jane get /a": true}, free: free}
		a := cluster.access(t, &test.Text{})
		handler, _ := newHandler(t, Options{Runner: echoes, Access: a}, "a.sh GET /a")
		send := func(address, token string) *httptest.ResponseRecorder {
			r, w := httptest.NewRequestWithContext(t.Context(), "GET", "/a", nil), httptest.NewRecorder()
			r.RemoteAddr = address
			r.Header.Set("Authorization", "Bearer "+token)
			handler.ServeHTTP(w, r)
			return w
		}
		jane := func(when string) {
			t.Helper()
			if w := send("192.0.2.1:1", "jane"); w.Code != 200 {
				t.Errorf("%s: %d %s", when, w.Code, w.Body)
			}
		}
		jane("before")
		time.Sleep(acceptedFor - 1) // her answer is not cached any longer
		codes, sent := make(chan int, 200), 0
		for _, address := range []string{"192.0.2.1:%d", "[2001:db8::%d]:1", "127.0.0.1:%d"} {
			for i := range 20 {
				go func() { codes <- send(fmt.Sprintf(address, i+1), fmt.Sprint("stranger-", address, i)).Code }()
				sent++
			}
		}
		synctest.Wait()
		if refused := len(codes); refused != 2*(20-waitingOfAddress) {
			t.Errorf("%d are rejected immediately", refused)
		}
		jane("beside strangers")
		close(free)
		for range sent {
			if code := <-codes; code != 401 && code != 503 {
				t.Errorf("got %d", code)
			}
		}
		if w := send("192.0.2.1:1", "stranger"); w.Code != 401 || w.Header().Get("Connection") != "close" || len(a.waiting) > 0 {
			t.Errorf("afterwards: %d %v, waiting %v", w.Code, w.Header(), a.waiting)
		}
	})
}
