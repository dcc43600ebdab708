package http

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
)

func mustURL(text string) *url.URL {
	u, err := url.Parse(text)
	if err != nil {
		panic(err)
	}
	return u
}

// openAPI has the parts of a document that the tests check.
type openAPI struct {
	OpenAPI string
	Paths   map[string]map[string]json.RawMessage
}

type openAPIOperation struct {
	OperationID string
	Responses   map[string]json.RawMessage
}

func documentOf(t testing.TB, h http.Handler, headers ...string) openAPI {
	t.Helper()
	w := ask(t.Context(), h, "GET", "/openapi.json", "", headers...)
	var doc openAPI
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 || w.Header().Get("Content-Type") != "application/json" {
		t.Fatalf("%d %v %v", w.Code, w.Header(), err)
	}
	return doc
}

// documented reports whether the document contains the response to a request for an operation.
func (d openAPI) documented(t testing.TB, method, path string, w *httptest.ResponseRecorder) bool {
	t.Helper()
	var op openAPIOperation
	if err := json.Unmarshal(d.Paths[path][strings.ToLower(method)], &op); err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	_, ok := op.Responses[strconv.Itoa(w.Code)]
	return ok
}

func TestDocument(t *testing.T) {
	handler, _ := newHandler(t, Options{Runner: echoes}, manyRoutes+"d.sh GET /nodes/{a}/{b}/x\nd.sh GET /nodes/a_b\nd.sh GET /nodes/a-b")
	doc := documentOf(t, handler)
	if doc.OpenAPI != "3.0.3" {
		t.Errorf("version %q", doc.OpenAPI)
	}
	ids, operations := map[string]bool{}, 0
	for path, item := range doc.Paths {
		var parameters []struct {
			Name, In string
			Required bool
		}
		if item["parameters"] != nil {
			if err := json.Unmarshal(item["parameters"], &parameters); err != nil {
				t.Fatal(err)
			}
		}
		for _, p := range parameters {
			if !strings.Contains(path, "{"+p.Name+"}") || p.In != "path" || !p.Required {
				t.Errorf("%s: parameter %+v", path, p)
			}
		}
		if strings.Count(path, "{") != len(parameters) {
			t.Errorf("%s has %d parameters", path, len(parameters))
		}
		for method, text := range item {
			if method == "parameters" {
				continue
			}
			operations++
			var op openAPIOperation
			if err := json.Unmarshal(text, &op); err != nil || op.OperationID == "" || ids[op.OperationID] || len(op.Responses) < 5 {
				t.Errorf("%s %s: %+v %v", method, path, op, err)
			}
			ids[op.OperationID] = true
		}
	}
	if operations != len(handler.routes) {
		t.Errorf("%d operations for %d routes", operations, len(handler.routes))
	}
	// The names of variables are irrelevant: a path is in the document once.
	if doc.Paths["/nodes/{name}"]["post"] == nil || doc.Paths["/nodes/{other}"] != nil {
		t.Errorf("paths: %v", doc.Paths)
	}
}
