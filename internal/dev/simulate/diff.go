package simulate

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/kube"
)

// Diff is what an operation changes in an object.
type Diff struct {
	Object string   `json:"object"`
	Lines  []string `json:"lines"`
}

// noise are fields of metadata that differ between any two versions.
var noise = []string{"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"}

// objectDiff compares two versions of an object; nil is none. Values of Secrets are masked. The parent of a set is the operator's own
// record, and has no differences.
func objectDiff(before, after []byte) (d Diff, err error) {
	was, name, err := comparable(before)
	if err != nil {
		return d, err
	}
	is, newName, err := comparable(after)
	if err != nil {
		return d, err
	}
	if name == "" {
		name = newName
	}
	mask(was, is)
	var left, right any
	if was != nil {
		left = was
	}
	if is != nil {
		right = is
	}
	return Diff{name, testfile.Diff(left, right)}, nil
}

// comparable returns an object without noise, and its reference.
func comparable(text []byte) (tree map[string]any, ref string, err error) {
	if text == nil {
		return nil, "", nil
	}
	h, err := testfile.HeadOf(text)
	if err != nil || isParent(&h) {
		return nil, "", err
	}
	value, err := testfile.Tree(text)
	if err != nil {
		return nil, "", err
	}
	tree, _ = value.(map[string]any)
	metadata, _ := tree["metadata"].(map[string]any)
	for _, field := range noise {
		delete(metadata, field)
	}
	return tree, h.Ref(), nil
}

func isParent(h *testfile.Head) bool {
	return h.Kind == "ConfigMap" && strings.HasPrefix(h.Metadata.Name, "shell-operator-") &&
		h.Metadata.Labels["applyset.kubernetes.io/id"] != ""
}

// mask replaces the values of Secrets; different values stay different.
func mask(was, is map[string]any) {
	for _, field := range []string{"data", "stringData"} {
		old, _ := was[field].(map[string]any)
		current, _ := is[field].(map[string]any)
		if was["kind"] != "Secret" && is["kind"] != "Secret" {
			return
		}
		for key, value := range current {
			before, has := old[key]
			current[key] = "masked"
			if has && before != value {
				current[key] = "masked, changed"
			}
		}
		for key := range old {
			old[key] = "masked"
		}
	}
	for _, tree := range []map[string]any{was, is} { // kubectl apply keeps the whole object there
		metadata, _ := tree["metadata"].(map[string]any)
		annotations, _ := metadata["annotations"].(map[string]any)
		if annotations[lastApplied] != nil {
			annotations[lastApplied] = "masked"
		}
	}
}

const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// dryRuns records what requests with dryRun would change. It is the transport of a client.
type dryRuns struct {
	next http.RoundTripper

	mu    sync.Mutex
	diffs []Diff
}

// RoundTrip reads the object before a request that writes.
func (d *dryRuns) RoundTrip(r *http.Request) (*http.Response, error) {
	if !writes(r) {
		return d.next.RoundTrip(r)
	}
	path, err := objectPath(r)
	if err != nil {
		return nil, err
	}
	before, err := d.read(r, path)
	if err != nil {
		return nil, err
	}
	response, body, err := answered(d.next.RoundTrip(r))
	if err != nil || response.StatusCode >= http.StatusMultipleChoices {
		return response, err
	}
	if r.Method == http.MethodDelete {
		body = nil
	}
	diff, err := objectDiff(before, body)
	if err != nil {
		return nil, fmt.Errorf("cannot compare %s: %w", path, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(diff.Lines) > 0 {
		d.diffs = append(d.diffs, diff)
	}
	return response, nil
}

// read returns the current object, or nil.
func (d *dryRuns) read(r *http.Request, path string) ([]byte, error) {
	if path == "" {
		return nil, nil
	}
	get := r.Clone(r.Context())
	get.Method, get.Body, get.ContentLength, get.GetBody = http.MethodGet, nil, 0, nil
	get.URL.Path, get.URL.RawQuery = path, ""
	get.Header.Del("Content-Type")
	response, err := d.next.RoundTrip(get)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, nil
	}
	return io.ReadAll(response.Body)
}

// sortDiffs puts differences into a stable order: operations on different objects are sent concurrently.
func sortDiffs(all []Diff) {
	slices.SortStableFunc(all, func(a, b Diff) int { return strings.Compare(a.Object, b.Object) })
}

// take returns the differences so far.
func (d *dryRuns) take() []Diff {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := d.diffs
	d.diffs = nil
	sortDiffs(all)
	return all
}

func writes(r *http.Request) bool {
	return r.Method != http.MethodGet && r.Method != http.MethodHead && !strings.HasPrefix(r.URL.Path, "/apis/authorization.k8s.io/")
}

// objectPath returns the path of the object that a request is about, with its subresource. It is empty for a name that the API server
// generates.
func objectPath(r *http.Request) (string, error) {
	if r.Method != http.MethodPost {
		return r.URL.Path, nil
	}
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return "", err
	}
	r.Body = io.NopCloser(bytes.NewReader(body))
	h, err := testfile.HeadOf(body)
	if err != nil {
		return "", fmt.Errorf("cannot read the body of the request to %s: %w", r.URL.Path, err)
	}
	if kube.ParsePath(r.URL.Path).Name != "" { // a subresource, such as an eviction
		return r.URL.Path, nil
	}
	if h.Metadata.Name == "" {
		return "", nil
	}
	return strings.TrimSuffix(r.URL.Path, "/") + "/" + h.Metadata.Name, nil
}

// answered reads the body of a response, which can be read again.
func answered(response *http.Response, err error) (*http.Response, []byte, error) {
	if err != nil {
		return nil, nil, err
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return nil, nil, err
	}
	response.Body = io.NopCloser(bytes.NewReader(body))
	return response, body, nil
}
