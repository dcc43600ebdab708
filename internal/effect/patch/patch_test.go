package patch

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/effect"
	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// applier is an Applier with the log of a run.
type applier struct {
	*Applier
	log *slog.Logger
}

// newApplier returns an applier for the cluster, and its log.
func newApplier(t *testing.T, cluster *testenv.Cluster, change func(*Options)) (*applier, *bytes.Buffer) {
	t.Helper()
	client, err := kube.NewClient(cluster.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	opts := Options{
		Client: client, Resolver: kube.NewResolver(client), Filters: jq.NewCompiler(jq.Options{}),
		DeleteTimeout: time.Second,
	}
	if change != nil {
		change(&opts)
	}
	return &applier{New(opts), slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))}, &log
}

// apply reads and applies the text of a patch file, one document at a time. It returns the error.
func apply(t *testing.T, a *applier, text string) string {
	t.Helper()
	patches, err := wire.ReadPatches(io.NewSectionReader(strings.NewReader(text), 0, int64(len(text))), jq.NewCompiler(jq.Options{}))
	if err == nil {
		_, err = a.Apply(context.Background(), a.log, Run{Hook: "h.sh"}, patches)
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

// TestOperations runs the files of testdata. Each has "before" (for kubectl apply), perhaps "wait" (arguments of kubectl wait), "patches",
// "look" (arguments of kubectl) and "want" (its output), and "error" with a part of the expected error, or "end" with its end. With
// "user" the operator has no permissions. $NS is a namespace.
func TestOperations(t *testing.T) {
	cluster := testenv.Shared(t)
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(err, files)
	}
	admin, _ := newApplier(t, cluster, func(o *Options) { o.DeleteTimeout = test.Patience }) // a CRD goes when its objects are gone
	user, _ := newApplier(t, cluster, func(o *Options) { o.Client = testenv.Client(t, testenv.Config(t, cluster.UserKubeconfig)) })
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			t.Parallel()
			namespace := cluster.Namespace(t)
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			parts := map[string]string{}
			for _, f := range txtar.Parse(bytes.ReplaceAll(text, []byte("$NS"), []byte(namespace))).Files {
				parts[f.Name] = strings.TrimSpace(string(f.Data))
			}
			if before := parts["before"]; before != "" {
				cluster.KubectlInput(t, before, "-n", namespace, "apply", "-f", "-")
			}
			if wait := parts["wait"]; wait != "" {
				cluster.Kubectl(t, append([]string{"-n", namespace, "wait"}, strings.Fields(wait)...)...)
			}
			a := admin
			if _, ok := parts["user"]; ok {
				a = user
			}
			// What a hook hands back has to hold when it is handed back again.
			for _, round := range []string{"patches", "again"} {
				if parts[round] == "" {
					continue
				}
				got, part, end := apply(t, a, parts[round]), parts["error"], parts["end"]
				if part+end == "" && got != "" || !strings.Contains(got, part) || !strings.HasSuffix(got, end) {
					t.Errorf("%s: error %q, want %q", round, got, part+end)
				}
			}
			if look := parts["look"]; look != "" {
				kubectl := func() string {
					return strings.TrimSpace(cluster.Kubectl(t, append([]string{"-n", namespace}, strings.Fields(look)...)...))
				}
				got := kubectl()
				// The garbage collector removes what orphans its dependents, after the answer to the deletion.
				for begin := time.Now(); got != parts["want"] && time.Since(begin) < test.Patience; {
					got = kubectl()
				}
				if got != parts["want"] {
					t.Errorf("kubectl %s: %q, want %q", look, got, parts["want"])
				}
			}
		})
	}
}

func TestDeleteWaits(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	a, _ := newApplier(t, cluster, nil)
	cluster.KubectlInput(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: held, finalizers: [example.com/hold]}}`, "-n", namespace,
		"apply", "-f", "-")
	del := fmt.Sprintf(`{"operation": "Delete", "kind": "cm", "namespace": %q, "name": "held"}`, namespace)
	// The client's rate limiter would reject a read that it begins after the timeout.
	slow, _ := newApplier(t, cluster, func(o *Options) {
		config := cluster.Config(t)
		config.QPS, config.Burst = 0.5, 1
		var err error
		if o.Client, err = kube.NewClient(config); err != nil {
			t.Fatal(err)
		}
	})
	for _, a := range []*applier{a, slow} {
		if got := apply(t, a, del); !strings.Contains(got, "it is still there after 1s") || !strings.Contains(got, "example.com/hold") {
			t.Errorf("error %q", got)
		}
	}
	cluster.Kubectl(t, "-n", namespace, "patch", "configmap", "held", "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
	if got := apply(t, a, del); got != "" {
		t.Error(got)
	}
}

// Many writers of one object: conflicts are tried again, and nothing is lost.
func TestConflicts(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	a, _ := newApplier(t, cluster, nil)
	if got := apply(t, a, `{"operation": "Create", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", `+
		`"namespace": "`+namespace+`"}}}`); got != "" {
		t.Fatal(got)
	}
	const writers = 3
	errs := make(chan string, writers)
	for i := range writers {
		go func() {
			errs <- apply(t, a,
				fmt.Sprintf(`{"operation": "JQPatch", "kind": "ConfigMap", "namespace": %q, "name": "one", "jqFilter": ".data.w%d = \"done\""}`,
					namespace, i))
		}()
	}
	for range writers {
		if got := <-errs; got != "" {
			t.Error(got)
		}
	}
	if got := cluster.Kubectl(t, "-n", namespace, "get", "cm", "one", "-o", "jsonpath={.data.w0}{.data.w1}{.data.w2}"); got != "donedonedone" {
		t.Errorf("data %q", got)
	}
}

// A name with path segments does not address another object, the collection or the namespace, even if wire missed it.
func TestNamesLeadNowhereElse(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	a, _ := newApplier(t, cluster, nil)
	cluster.Kubectl(t, "-n", namespace, "create", "configmap", "first")
	cluster.Kubectl(t, "-n", namespace, "create", "secret", "generic", "token")
	for _, p := range []effect.Patch{
		{Operation: effect.DeleteInBackground, APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "."},
		{Operation: effect.Delete, APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: ".."},
		{Operation: effect.Delete, APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "../secrets/token"},
		{Operation: effect.MergePatch, APIVersion: "v1", Kind: "ConfigMap", Namespace: namespace, Name: "first",
			Subresource: "../../secrets/token", Body: []byte(`{"data":{"a":"eA=="}}`)},
		{Operation: effect.Delete, APIVersion: "v1", Kind: "ConfigMap", Namespace: "default/../" + namespace, Name: "first"},
	} {
		_, err := a.Apply(t.Context(), a.log, Run{}, []effect.Patch{p})
		if err == nil || !strings.Contains(err.Error(), "cannot be a part of a path") {
			t.Errorf("%s %s/%s %s: error %v", p.Operation, p.Namespace, p.Name, p.Subresource, err)
		}
	}
	if got := cluster.Kubectl(t, "-n", namespace, "get", "configmap/first", "secret/token", "-o",
		"jsonpath={.items[*].metadata.name} {.items[*].data} {.items[*].metadata.deletionTimestamp}"); strings.TrimSpace(got) != "first token" {
		t.Errorf("left is %q", got)
	}
}

// A CRD serves another version than the operator has seen: a Delete that names none does not succeed without deleting anything.
func TestServedElsewhere(t *testing.T) {
	version, deleted := "v1", ""
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		switch {
		case r.URL.Path == "/apis":
			fmt.Fprintf(w, `{"groups": [{"name": "example.com", "preferredVersion": {"groupVersion": "example.com/%[1]s"}, `+
				`"versions": [{"groupVersion": "example.com/%[1]s"}]}]}`, version)
		case r.URL.Path == "/apis/example.com/"+version:
			fmt.Fprint(w, `{"resources": [{"name": "things", "kind": "Thing", "namespaced": true, "verbs": ["get", "delete"]}]}`)
		case r.URL.Path == "/api/v1":
			fmt.Fprint(w, `{"resources": []}`)
		case strings.HasPrefix(r.URL.Path, "/apis/example.com/"+version+"/") && r.Method == http.MethodDelete:
			deleted += r.URL.Path
			fmt.Fprint(w, `{"kind": "Status", "status": "Success"}`)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	client, err := kube.NewClient(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	a := &applier{New(Options{Client: client, Resolver: kube.NewResolver(client), Filters: jq.NewCompiler(jq.Options{})}),
		slog.New(slog.DiscardHandler)}
	for _, step := range []struct{ version, want string }{{"v1", "/apis/example.com/v1/namespaces/a/things/b"},
		{"v2", "/apis/example.com/v2/namespaces/a/things/b"}} {
		version, deleted = step.version, ""
		if got := apply(t, a, `{operation: Delete, kind: Thing, namespace: a, name: b}`); got != "" || deleted != step.want {
			t.Errorf("%s: error %q, deleted is %q, want %q", step.version, got, deleted, step.want)
		}
	}
}

// A patch for the version that a binding has is sent again without it if it was rejected, and not if it may have been applied.
func TestPatchForAVersion(t *testing.T) {
	for status, want := range map[int]int{200: 1, 409: 2, 422: 2, 504: 1} {
		var bodies []string
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			if r.Method == http.MethodGet {
				fmt.Fprint(w, `{"resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get", "patch"]}]}`)
				return
			}
			body, _ := io.ReadAll(r.Body)
			if bodies = append(bodies, string(body)); len(bodies) == 1 && status != 200 {
				w.WriteHeader(status)
				fmt.Fprintf(w, `{"kind": "Status", "status": "Failure", "code": %d, "reason": "%s"}`, status, map[int]string{409: "Conflict",
					422: "Invalid", 504: "Timeout"}[status])
				return
			}
			fmt.Fprint(w, `{"kind": "Pod", "metadata": {"resourceVersion": "9"}}`)
		}))
		defer server.Close()
		client, err := kube.NewClient(&rest.Config{Host: server.URL})
		if err != nil {
			t.Fatal(err)
		}
		before, after := "", ""
		ctx := effect.WithOwned(t.Context(), func(_, _, _, _ string) (effect.Known, func(before, after string)) {
			return effect.Known{Version: "8"}, func(b, a string) { before, after = b, a }
		})
		_, err = New(Options{Client: client, Resolver: kube.NewResolver(client), Filters: jq.NewCompiler(jq.Options{})}).Apply(ctx,
			slog.New(slog.DiscardHandler), Run{}, []effect.Patch{{Operation: effect.JSONPatch, APIVersion: "v1", Kind: "Pod", Namespace: "n",
				Name: "a", Body: []byte(`[{"op":"remove","path":"/x"}]`)}})
		if (err != nil) != (status == 504) || len(bodies) != want || !strings.Contains(bodies[0], `"value":"8"`) ||
			want == 2 && strings.Contains(bodies[1], "resourceVersion") {
			t.Errorf("%d: error %v, sent %q", status, err, bodies)
		}
		if own := before+" "+after == "8 9"; own != (status == 200) {
			t.Errorf("%d: reported as own from %q to %q", status, before, after)
		}
	}
}
