package patch

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// An API server may reject a request to create an object that exists for another reason than its name. One read decides then, and
// no other request is added.
func TestRejectedCreates(t *testing.T) {
	const web = `{"kind": "Pod", "metadata": {"resourceVersion": "7"}}`
	var post, get, requests string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		reply := map[string]string{http.MethodPost: post, http.MethodGet: get, http.MethodPut: web}[r.Method]
		if strings.HasSuffix(r.URL.Path, "/v1") {
			reply = `{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["create", "get", "update"]}]}`
		} else {
			requests += " " + r.Method
		}
		if code, reason := 0, ""; reply[0] != '{' {
			fmt.Sscan(reply, &code, &reason)
			w.WriteHeader(code)
			reply = fmt.Sprintf(`{"kind": "Status", "status": "Failure", "code": %d, "reason": %q}`, code, reason)
		}
		fmt.Fprint(w, reply)
	}))
	defer server.Close()
	client, err := kube.NewClient(&rest.Config{Host: server.URL, QPS: -1})
	if err != nil {
		t.Fatal(err)
	}
	a := New(Options{Client: client, Resolver: kube.NewResolver(client), Filters: jq.NewCompiler(jq.Options{})})
	for _, post = range []string{web, "403 Forbidden", "409 AlreadyExists", "409 Conflict", "422 Invalid", "400 BadRequest", "404 NotFound",
		"500 InternalError"} {
		for _, get = range []string{web, `{"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}`, "404 NotFound", "403 Forbidden",
			"500 InternalError"} {
			for _, operation := range []effect.Operation{effect.Create, effect.CreateIfNotExists, effect.CreateOrUpdate} {
				for _, name := range []string{"web", ""} {
					want, succeeds := " POST", post == web
					reads := name != "" && operation != effect.Create
					switch {
					case reads && strings.HasSuffix(post, "AlreadyExists"):
						succeeds = true
						if operation == effect.CreateOrUpdate {
							want, succeeds = " POST GET", get[0] == '{'
						}
					case reads && (strings.HasPrefix(post, "403") || strings.HasPrefix(post, "409") || strings.HasPrefix(post, "422")):
						want, succeeds = " POST GET", get == web
					}
					if succeeds && want == " POST GET" && operation == effect.CreateOrUpdate {
						want += " PUT"
					}
					requests = ""
					_, err := a.Apply(t.Context(), slog.New(slog.DiscardHandler), Run{}, []effect.Patch{{Operation: operation, APIVersion: "v1",
						Kind: "Pod", Namespace: "shop", Name: name, Object: []byte(`{"metadata": {"name": "web"}}`)}})
					if requests != want || (err == nil) != succeeds {
						t.Errorf("%s of %q, POST %s, GET %s: requests%s, error %v, want%s", operation, name, post, get, requests, err, want)
					}
					if _, reason, _ := strings.Cut(post, " "); err != nil && !strings.HasSuffix(post, "AlreadyExists") &&
						apierrors.ReasonForError(err) != metav1.StatusReason(reason) {
						t.Errorf("%s, POST %s, GET %s: error %v", operation, post, get, err)
					}
				}
			}
		}
	}
}
