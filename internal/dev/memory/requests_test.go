package memory_test

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test/golden"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// rows are what TestEqual has not. They are requests to an empty namespace: a verb, a path and a body. APPLY, MERGE and JSON are the forms
// of PATCH; UID and VERSION stand for the uid and version of the object that was answered last. testdata/requests.txt has the answers: of
// the server in memory, and, without a difference, of a real one.
var rows = []struct {
	name, difference string
	requests         []string
}{
	{"scale", "", []string{
		`POST gizmos?fieldManager=a {"metadata": {"name": "one"}, "spec": {"replicas": 1}}`,
		`GET gizmos/one/scale`,
		`MERGE gizmos/one/scale?fieldManager=b {"spec": {"replicas": 2}}`,
		`GET gizmos/one`,
	}},
	{"numbers", "", []string{
		`POST gizmos?fieldManager=a {"metadata": {"name": "one"}, "spec": {"whole": 9007199254740993, "part": 1.5, "float": 2.0}}`,
		`MERGE gizmos/one?fieldManager=a {"spec": {"part": 1.25}}`,
	}},
	{"lists that are merged by keys", "", []string{
		`APPLY serviceaccounts/one?fieldManager=a {"secrets": [{"name": "a"}]}`,
		`APPLY serviceaccounts/one?fieldManager=b {"secrets": [{"name": "b"}]}`,
		`APPLY serviceaccounts/one?fieldManager=a {"secrets": []}`,
		`APPLY configmaps/one?fieldManager=a {"metadata": {"name": "one", "finalizers": ["example.com/a"]}}`,
		`APPLY configmaps/one?fieldManager=b {"metadata": {"name": "one", "finalizers": ["example.com/b"]}}`,
		`MERGE configmaps/one?fieldManager=c {"metadata": {"finalizers": null}}`,
	}},
	{"unknown fields", "", []string{
		`POST configmaps {"metadata": {"name": "one"}, "date": {"a": "1"}}`,
		`POST serviceaccounts {"metadata": {"name": "one", "lables": {}}, "secrets": [{"nome": "x"}]}`,
		`POST configmaps {"metadata": {"name": "one"}}`,
		`PUT configmaps/one {"metadata": {"name": "one"}, "date": {"a": "1"}}`,
		`MERGE configmaps/one {"date": {"a": "1"}}`,
		`JSON configmaps/one [{"op": "add", "path": "/date", "value": {}}]`,
	}},
	{"values of another type", "", []string{
		`POST configmaps {"metadata": {"name": "one"}, "data": {"a": 1}}`,
		`POST configmaps {"metadata": {"name": "one"}, "data": ["a"]}`,
		`POST configmaps {"metadata": {"name": "one"}, "immutable": "yes"}`,
	}},
	{"null", "null is kept", []string{
		`POST configmaps {"metadata": {"name": "one"}, "data": null}`,
	}},
	{"fields have defaults", "nothing is defaulted", []string{
		`POST secrets {"metadata": {"name": "one"}}`,
	}},
	{"a namespace must exist", "namespaces are not checked", []string{
		`POST missing/configmaps {"metadata": {"name": "one"}}`,
	}},
}

// kinds are the kinds of the requests.
func kinds() []memory.Kind {
	kind := func(group, resource, name string) memory.Kind {
		return memory.Kind{Resource: kube.Resource{
			GroupVersionResource: schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}, Kind: name, Namespaced: true,
		}}
	}
	gizmo := kind("memory.example.com", "gizmos", "Gizmo")
	gizmo.Status, gizmo.Scale = true, true
	return []memory.Kind{kind("", "configmaps", "ConfigMap"), kind("", "secrets", "Secret"), kind("", "serviceaccounts", "ServiceAccount"),
		gizmo}
}

const gizmoCRD = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: gizmos.memory.example.com}, spec: {
  group: memory.example.com, scope: Namespaced, names: {plural: gizmos, singular: gizmo, kind: Gizmo},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}},
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}}]}}`

// play sends the requests of a row and returns what they are answered.
func play(t *testing.T, do func(*http.Request) (*http.Response, error), host, namespace string, requests []string) string {
	t.Helper()
	var out strings.Builder
	uid, version := "", ""
	for _, text := range requests {
		fmt.Fprintf(&out, "%s\n", text)
		verb, rest, _ := strings.Cut(strings.NewReplacer("UID", uid, "VERSION", version).Replace(text), " ")
		path, body, _ := strings.Cut(rest, " ")
		path, query, _ := strings.Cut(path, "?")
		in := namespace
		if below, isMissing := strings.CutPrefix(path, "missing/"); isMissing {
			in, path = "missing", below
		}
		k := kinds()[slices.IndexFunc(kinds(), func(k memory.Kind) bool { return strings.HasPrefix(path, k.GroupVersionResource.Resource) })]
		media := map[string]string{"APPLY": "application/apply-patch+yaml", "MERGE": "application/merge-patch+json",
			"JSON": "application/json-patch+json"}[verb]
		if media != "" {
			verb = http.MethodPatch
		}
		if verb != http.MethodGet && verb != http.MethodDelete {
			query = strings.TrimPrefix(query+"&fieldValidation=Strict", "&")
		}
		var tree map[string]any
		if json.Unmarshal([]byte(body), &tree) == nil && verb != http.MethodDelete && media != "application/merge-patch+json" {
			tree["apiVersion"], tree["kind"] = k.GroupVersion().String(), k.Kind
			if _, name, isOne := strings.Cut(path, "/"); isOne && tree["metadata"] == nil {
				tree["metadata"] = map[string]any{}
				tree["metadata"].(map[string]any)["name"], _, _ = strings.Cut(name, "/")
			}
			text, _ := json.Marshal(tree)
			body = string(text)
		}
		url := host + "/" + strings.TrimPrefix(strings.Join(k.Path(in), "/"), "/")
		url = strings.TrimSuffix(url, k.GroupVersionResource.Resource) + path
		r, err := http.NewRequestWithContext(t.Context(), verb, url+strings.TrimSuffix("?"+query, "?"), strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("User-Agent", "tester/1")
		r.Header.Set("Content-Type", cmp.Or(media, "application/json"))
		response, err := do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Fatal(err)
		}
		var o map[string]any
		if err := decodeNumbers(answer, &o); err != nil {
			t.Fatalf("%s: %v\n%s", text, err, answer)
		}
		if metadata, _ := o["metadata"].(map[string]any); metadata["uid"] != nil {
			uid, version = fmt.Sprint(metadata["uid"]), fmt.Sprint(metadata["resourceVersion"])
		}
		fmt.Fprintf(&out, "  %d %s\n", response.StatusCode, strings.ReplaceAll(same(o), namespace, "NS"))
	}
	return out.String()
}

// playInMemory sends the requests of a row to a server in memory.
func playInMemory(t *testing.T, requests []string) string {
	t.Helper()
	server := httptest.NewServer(memory.New(memory.Options{Kinds: kinds()}))
	defer server.Close()
	return play(t, http.DefaultClient.Do, server.URL, "test-0-0", requests)
}

// TestRequests compares the answers with testdata/requests.txt.
func TestRequests(t *testing.T) {
	var out strings.Builder
	for _, row := range rows {
		fmt.Fprintf(&out, "# %s\n%s\n", row.name, playInMemory(t, row.requests))
	}
	golden.Compare(t, "testdata/requests.txt", out.String())
}
