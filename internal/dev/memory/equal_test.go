package memory_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/dev/memory"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// widgetCRD has no status, and lists that are merged.
const widgetCRD = `{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition,
  metadata: {name: widgets.memory.example.com}, spec: {
  group: memory.example.com, scope: Namespaced, names: {plural: widgets, singular: widget, kind: Widget},
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object,
    properties: {spec: {type: object, properties: {
    color: {type: string}, size: {type: integer}, tags: {type: array, x-kubernetes-list-type: set, items: {type: string}},
    items: {type: array, x-kubernetes-list-type: map, x-kubernetes-list-map-keys: [name], items: {type: object, required: [name],
      properties: {name: {type: string}, value: {type: string}}}}, plain: {type: array, items: {type: string}},
    map: {type: object, additionalProperties: {type: string}}}}, status: {type: object, x-kubernetes-preserve-unknown-fields: true}}}}}]}}`

// side is one of the two servers that are compared, with what it has said of objects by path.
type side struct {
	do            func(*http.Request) (*http.Response, error)
	host          string
	uids, version map[string]string
	start         string
}

// equal is a random sequence of requests to both servers.
type equal struct {
	ctx     context.Context
	r       *rand.Rand
	sides   [2]*side
	ns      string
	trace   []string
	failure string
}

// kindOf is what the generator knows of a kind.
type kindOf struct{ path, apiVersion, kind string }

var kindsOf = []kindOf{
	{"/api/v1/namespaces/NS/configmaps", "v1", "ConfigMap"}, {"/api/v1/namespaces/NS/secrets", "v1", "Secret"},
	{"/apis/coordination.k8s.io/v1/namespaces/NS/leases", "coordination.k8s.io/v1", "Lease"},
	{"/apis/memory.example.com/v1/namespaces/NS/gizmos", "memory.example.com/v1", "Gizmo"},
	{"/apis/memory.example.com/v1/namespaces/NS/widgets", "memory.example.com/v1", "Widget"},
	{"/api/v1/namespaces", "v1", "Namespace"},
}

type tree = map[string]any

func (e *equal) chance(percent int) bool { return e.r.IntN(100) < percent }

func pick[T any](e *equal, of ...T) T { return of[e.r.IntN(len(of))] }

// metadata returns random metadata; with nulls, what a merge patch may have.
func (e *equal) metadata(nulls bool) tree {
	m := tree{}
	put := func(percent int, name string, value func() any) {
		switch {
		case e.chance(percent):
			m[name] = value()
		case nulls && e.chance(percent/3):
			m[name] = nil
		}
	}
	put(50, "labels", func() any { return tree{"x": pick(e, "y", "z")} })
	put(25, "annotations", func() any { return tree{pick(e, "a", "b"): pick(e, "1", "2")} })
	put(20, "finalizers", func() any {
		return pick(e, []any{"example.com/f"}, []any{"example.com/f", "example.com/g"}, []any{"example.com/g"}, []any{})
	})
	put(4, "ownerReferences", func() any {
		return []any{tree{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": ""}} // the garbage collector deletes the children of others
	})
	return m
}

// content returns random fields of a kind but metadata.
func (e *equal) content(k kindOf, nulls bool) tree {
	c := tree{}
	values := func(encode func(string) string) tree {
		m := tree{}
		for _, name := range []string{"a", "b", "c"} {
			switch {
			case e.chance(45):
				m[name] = encode(pick(e, "1", "2", "3"))
			case nulls && e.chance(15):
				m[name] = nil
			}
		}
		return m
	}
	plain := func(s string) string { return s }
	switch k.kind {
	case "ConfigMap":
		c["data"] = values(plain)
		if e.chance(10) {
			c["binaryData"] = tree{"d": "AAEC"}
		}
		if e.chance(4) {
			c["immutable"] = pick(e, true, false)
		}
	case "Secret":
		c[pick(e, "data", "data", "stringData")] = values(func(s string) string { return strings.Repeat(s, 4) })
		if e.chance(10) {
			c["type"] = pick(e, "Opaque", "example.com/t")
		}
		if e.chance(4) {
			c["immutable"] = pick(e, true, false)
		}
	case "Lease":
		spec := tree{"holderIdentity": pick(e, "one", "two"), "leaseDurationSeconds": pick(e, 1, 15, 15, 0)}
		if e.chance(50) {
			spec["renewTime"] = pick(e, "2024-01-01T00:00:00.000000Z", "2024-01-01T00:00:00.5Z")
		}
		c["spec"] = spec
	case "Gizmo":
		spec := tree{"color": pick(e, "red", "blue"), "replicas": e.r.IntN(4)}
		if e.chance(40) {
			spec["list"] = pick(e, []any{1, 2}, []any{tree{"name": "a"}}, []any{})
		}
		if e.chance(40) {
			spec["map"] = values(plain)
		}
		if nulls && e.chance(20) {
			spec["color"] = nil
		}
		c["spec"], c["status"] = spec, tree{"ready": e.r.IntN(3)}
	case "Widget":
		spec := tree{"color": pick(e, "red", "blue"), "size": e.r.IntN(3)}
		for field, value := range map[string][]any{"tags": {[]any{"a"}, []any{"a", "b"}, []any{"b"}}, "plain": {[]any{"a"}, []any{"b", "a"}},
			"items": {[]any{tree{"name": "a", "value": "1"}}, []any{tree{"name": "b", "value": "2"}, tree{"name": "a"}}}} {
			chosen := pick(e, value...)
			if e.chance(40) {
				spec[field] = chosen
			}
		}
		if e.chance(40) {
			spec["map"] = values(plain)
		}
		c["spec"] = spec
		if e.chance(30) {
			c["status"] = tree{"ready": e.r.IntN(3)}
		}
	}
	return c
}

// jsonPatch returns random operations.
func (e *equal) jsonPatch(k kindOf) []any {
	field := map[string]string{"ConfigMap": "/data/", "Secret": "/data/", "Namespace": "/metadata/labels/"}[k.kind]
	if field == "" {
		field = "/spec/"
	}
	value := map[string]any{"Secret": "MTIz", "Lease": "three"}[k.kind]
	if value == nil {
		value = "1"
	}
	name := map[string]string{"Lease": "holderIdentity", "Gizmo": "color", "Widget": "color"}[k.kind]
	if name == "" {
		name = pick(e, "a", "b")
	}
	var operations []any
	for range 1 + e.r.IntN(2) {
		operations = append(operations, pick(e, tree{"op": "add", "path": field + name, "value": value},
			tree{"op": "replace", "path": field + name, "value": value}, tree{"op": "remove", "path": field + name},
			tree{"op": "test", "path": field + name, "value": value}, tree{"op": "add", "path": "/metadata/annotations", "value": tree{"j": "1"}},
			tree{"op": "remove", "path": "/metadata/finalizers"}, tree{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/f"}))
	}
	return operations
}

// step sends one random request, the first ones to create objects.
func (e *equal) step(first bool) {
	k := kindsOf[e.r.IntN(len(kindsOf)-1)]
	if e.chance(6) {
		k = kindsOf[len(kindsOf)-1]
	}
	name := pick(e, "a", "a", "b")
	if k.kind == "Namespace" {
		name = e.ns + "-" + name
	}
	query := url.Values{"fieldManager": {pick(e, "m1", "m2", "m3")}}
	if e.chance(8) {
		query.Set("dryRun", "All")
	}
	one, body := k.path+"/"+name, tree{"apiVersion": k.apiVersion, "kind": k.kind, "metadata": e.metadata(false)}
	for field, value := range e.content(k, false) {
		body[field] = value
	}
	metadata := body["metadata"].(tree)
	patch := func() tree {
		p := tree{"metadata": e.metadata(true)}
		for field, value := range e.content(k, true) {
			p[field] = value
		}
		if e.chance(8) {
			p["metadata"].(tree)["resourceVersion"] = pick(e, "VERSION", "1")
		}
		if e.chance(3) {
			p["metadata"].(tree)["uid"] = pick(e, "UID", "11111111-1111-4111-8111-111111111111")
		}
		return p
	}
	n := e.r.IntN(100)
	if first {
		n = 0
	}
	switch {
	case n < 22:
		metadata["name"] = name
		e.send(http.MethodPost, k.path, query, "application/json", body)
	case n < 34:
		metadata["name"] = name
		if e.chance(60) {
			metadata["resourceVersion"] = pick(e, "VERSION", "VERSION", "VERSION", "1")
		}
		if e.chance(20) {
			metadata["uid"] = pick(e, "UID", "11111111-1111-4111-8111-111111111111")
		}
		if e.chance(4) {
			metadata["managedFields"] = []any{tree{}}
		}
		e.send(http.MethodPut, one, query, "application/json", body)
	case n < 44:
		e.send(http.MethodPatch, one, query, "application/merge-patch+json", patch())
	case n < 50:
		e.send(http.MethodPatch, one, query, "application/json-patch+json", e.jsonPatch(k))
	case n < 58:
		p := patch()
		if e.chance(20) {
			delete(p["metadata"].(tree), "finalizers") // with both the result depends on the order of a Go map
			p["metadata"].(tree)["$deleteFromPrimitiveList/finalizers"] = []any{"example.com/f"}
		}
		e.send(http.MethodPatch, one, query, "application/strategic-merge-patch+json", p)
	case n < 72:
		if e.chance(40) {
			query.Set("force", "true")
		}
		metadata["name"] = name
		if e.chance(5) {
			metadata["resourceVersion"] = pick(e, "VERSION", "1")
		}
		e.send(http.MethodPatch, one, query, "application/apply-patch+yaml", body)
	case n < 78 && k.kind != "Namespace":
		media, of := "application/merge-patch+json", tree{"status": tree{"ready": e.r.IntN(3)}, "spec": tree{"replicas": e.r.IntN(5)}}
		if e.chance(40) {
			media = "application/apply-patch+yaml"
			of["apiVersion"], of["kind"], of["metadata"] = k.apiVersion, k.kind, tree{"name": name}
		}
		e.send(http.MethodPatch, one+"/status", query, media, of)
	case n < 88 && k.kind != "Namespace":
		options := tree{"apiVersion": "v1", "kind": "DeleteOptions"}
		if e.chance(30) {
			options["preconditions"] = pick(e, tree{"uid": "UID"}, tree{"uid": "11111111-1111-4111-8111-111111111111"},
				tree{"resourceVersion": "VERSION"}, tree{"resourceVersion": "1"})
		}
		query.Del("fieldManager")
		e.send(http.MethodDelete, one, query, "application/json", options)
	case n < 91:
		e.send(http.MethodGet, one, nil, "", nil)
	case n < 98 && k.kind != "Namespace":
		e.list(k)
	case k.kind != "Namespace":
		e.send(http.MethodDelete, k.path, url.Values{"labelSelector": {pick(e, "x=y", "x", "!x,never")}}, "", nil)
	}
}

// list lists objects.
func (e *equal) list(k kindOf) {
	query := url.Values{}
	for name, values := range map[string][]string{"labelSelector": {"x=y", "x notin (y)", "x"},
		"fieldSelector": {"metadata.name=a", "metadata.name!=a", "spec.color=red"}} {
		chosen := pick(e, values...)
		if e.chance(25) {
			query.Set(name, chosen)
		}
	}
	e.send(http.MethodGet, k.path, query, "", nil)
}

// send sends a request to both servers and compares their answers.
func (e *equal) send(method, path string, query url.Values, media string, body any) {
	text, _ := json.Marshal(body)
	if body == nil {
		text = nil
	}
	target := strings.TrimSuffix(strings.ReplaceAll(path, "NS", e.ns)+"?"+query.Encode(), "?")
	e.trace = append(e.trace, fmt.Sprintf("%s %s %s %s", method, target, strings.TrimPrefix(media, "application/"), text))
	var outcomes [2]string
	for i, s := range e.sides {
		key := strings.TrimSuffix(path, "/status")
		replace := strings.NewReplacer("UID", s.uids[key], "VERSION", s.version[key])
		r, err := http.NewRequestWithContext(e.ctx, method, s.host+replace.Replace(target), strings.NewReader(replace.Replace(string(text))))
		if err != nil {
			e.fail("%v", err)
			return
		}
		r.Header.Set("Content-Type", media)
		r.Header.Set("User-Agent", "tester/1")
		response, err := s.do(r)
		if err != nil {
			e.fail("%v", err)
			return
		}
		answer, err := io.ReadAll(response.Body)
		response.Body.Close()
		var o tree
		if err := errors.Join(err, decodeNumbers(answer, &o)); err != nil {
			e.fail("%v\n%s", err, answer)
			return
		}
		m, _ := o["metadata"].(tree)
		if m["uid"] != nil && query.Get("dryRun") == "" {
			of := key
			if method == http.MethodPost {
				of += "/" + fmt.Sprint(m["name"])
			}
			s.uids[of], s.version[of] = fmt.Sprint(m["uid"]), fmt.Sprint(m["resourceVersion"])
		}
		outcomes[i] = fmt.Sprintf("%d %s", response.StatusCode, same(o))
	}
	if outcomes[0] != outcomes[1] {
		e.fail("in memory\n%s\nreal\n%s", outcomes[0], outcomes[1])
	}
}

func decodeNumbers(text []byte, to any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	return d.Decode(to)
}

func (e *equal) fail(format string, args ...any) {
	if e.failure == "" {
		e.failure = fmt.Sprintf(format, args...)
	}
}

// same is an answer without uid, times and versions, and without what only the real one's controllers make.
func same(o tree) string {
	if o["kind"] == "Status" {
		details, _ := o["details"].(tree)
		var causes []string
		list, _ := details["causes"].([]any)
		for _, c := range list {
			c, _ := c.(tree)
			causes = append(causes, fmt.Sprint(c["reason"], " ", c["field"]))
		}
		slices.Sort(causes)
		return fmt.Sprint(o["status"], " ", o["reason"], " ", details["name"], " ", details["group"], " ", details["kind"], " ",
			strings.Join(slices.Compact(causes), ", "))
	}
	if items, isList := o["items"].([]any); isList {
		lines := []string{fmt.Sprint(o["kind"])}
		for _, item := range items {
			item, _ := item.(tree)
			if m, _ := item["metadata"].(tree); m["name"] != "kube-root-ca.crt" {
				delete(item, "apiVersion") // only some lists have it
				delete(item, "kind")
				lines = append(lines, same(item))
			}
		}
		return strings.Join(lines, "\n")
	}
	m, _ := o["metadata"].(tree)
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp"} {
		delete(m, field)
	}
	if m["deletionTimestamp"] != nil {
		m["deletionTimestamp"] = "set"
	}
	managed, _ := m["managedFields"].([]any)
	var managers []string
	for _, entry := range managed {
		entry, _ := entry.(tree)
		delete(entry, "time")
		text, _ := json.Marshal(entry)
		managers = append(managers, string(text))
	}
	slices.Sort(managers)
	delete(m, "managedFields")
	text, _ := json.Marshal(o)
	return strings.Join(append([]string{string(text)}, managers...), "\n  ")
}

// watch compares what watches of a kind send, which begin at the start of the sequence and are interrupted.
func (e *equal) watch(k kindOf) {
	e.send(http.MethodPost, k.path, nil, "application/json", tree{"apiVersion": k.apiVersion, "kind": k.kind,
		"metadata": tree{"name": "end", "labels": tree{"x": "y"}}})
	query := url.Values{"watch": {"true"}}
	switch e.r.IntN(4) {
	case 0:
		query.Set("labelSelector", "x=y")
	case 1:
		query.Set("fieldSelector", "metadata.name!=a")
	}
	initial := e.chance(25)
	if initial {
		query.Set("sendInitialEvents", "true")
		query.Set("resourceVersionMatch", "NotOlderThan")
		query.Set("allowWatchBookmarks", "true")
	}
	accept := "application/json"
	if e.chance(20) {
		accept = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
	}
	cut := e.r.IntN(5)
	e.trace = append(e.trace, fmt.Sprintf("WATCH %s?%s until %d", k.path, query.Encode(), cut))
	var seen [2][]string
	for i, s := range e.sides {
		from := s.start
		if initial {
			from = ""
		}
		for part := range 2 {
			var events []string
			var err error
			events, from, err = e.events(s, k, query, accept, from, initial, cut+1000*part)
			if err != nil && strings.Contains(err.Error(), "too old resource version") {
				return // the real one has begun to keep changes of a new CRD after the first version
			}
			if err != nil {
				e.fail("watch: %v", err)
				return
			}
			seen[i] = append(seen[i], events...)
			isEnd := func(event string) bool { return strings.Contains(event, `"name":"end"`) }
			if initial || len(events) < cut+1000*part || slices.ContainsFunc(events, isEnd) {
				break
			}
		}
		if initial {
			slices.Sort(seen[i])
		}
		for from, n := 0, 0; from < len(seen[i]); from += n + 1 { // a collection is deleted in no order
			n = slices.IndexFunc(append(seen[i][from:], ""), func(event string) bool { return !strings.HasPrefix(event, "DELETED ") })
			slices.Sort(seen[i][from : from+n])
		}
	}
	if !slices.Equal(seen[0], seen[1]) {
		e.fail("the watch in memory\n%s\nreal\n%s", strings.Join(seen[0], "\n"), strings.Join(seen[1], "\n"))
	}
}

// events reads events of one watch, up to a number, or until the end of the sequence or of the initial objects.
func (e *equal) events(s *side, k kindOf, query url.Values, accept, from string, initial bool, most int) (
	events []string, at string, err error,
) {
	ctx, cancel := context.WithTimeout(e.ctx, test.Patience/6)
	defer cancel()
	query.Set("resourceVersion", from)
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.host+strings.ReplaceAll(k.path, "NS", e.ns)+"?"+query.Encode(), nil)
	if err != nil {
		return nil, "", err
	}
	r.Header.Set("Accept", accept)
	response, err := s.do(r)
	if err != nil {
		return nil, "", err
	}
	defer response.Body.Close()
	lines := bufio.NewReader(response.Body)
	for len(events) < most {
		text, err := lines.ReadBytes('\n')
		if err != nil {
			return events, from, fmt.Errorf("after %s: %w", events, err)
		}
		var event struct {
			Type   string
			Object tree
		}
		if err := decodeNumbers(text, &event); err != nil {
			return nil, "", err
		}
		m, _ := event.Object["metadata"].(tree)
		from = fmt.Sprint(m["resourceVersion"])
		switch {
		case event.Type == "BOOKMARK" && initial:
			return events, from, nil
		case event.Type == "BOOKMARK", m["name"] == "kube-root-ca.crt":
			continue
		case event.Type == "ERROR":
			return events, from, fmt.Errorf("%v", event.Object)
		}
		events = append(events, event.Type+" "+same(event.Object))
		if m["name"] == "end" && !initial {
			return events, from, nil
		}
	}
	return events, from, nil
}

// run plays a sequence, and returns what differed.
func (e *equal) run() string {
	e.send(http.MethodPost, "/api/v1/namespaces", url.Values{"fieldManager": {"m1"}}, "application/json",
		tree{"apiVersion": "v1", "kind": "Namespace", "metadata": tree{"name": e.ns}})
	for _, s := range e.sides {
		s.start = s.version["/api/v1/namespaces/"+e.ns]
	}
	for i := range 14 + e.r.IntN(12) {
		if e.failure == "" {
			e.step(i < 4)
		}
	}
	for _, at := range e.r.Perm(len(kindsOf) - 1)[:2] {
		if e.failure == "" {
			e.watch(kindsOf[at])
		}
	}
	if e.failure == "" {
		return ""
	}
	return strings.Join(e.trace, "\n") + "\n" + e.failure
}

// TestEqual sends random sequences of requests to a server in memory and to a real one: statuses, objects, managers and events are equal.
// SEQUENCES is how many, SEED the first one.
func TestEqual(t *testing.T) {
	c := testenv.Own(t) // other tests compact a shared one, which ends watches from a version
	config := c.Config(t)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(memory.New(memory.Options{Kinds: memory.BuiltIns(), Live: true}))
	defer server.Close()
	for _, crd := range []string{gizmoCRD, widgetCRD} {
		c.KubectlInput(t, crd, "apply", "-f", "-")
		response, err := http.Post(server.URL+"/apis/apiextensions.k8s.io/v1/customresourcedefinitions", "", strings.NewReader(crd))
		if err != nil {
			t.Fatal(err)
		}
		text, _ := io.ReadAll(response.Body)
		response.Body.Close()
		if response.StatusCode != http.StatusCreated {
			t.Fatalf("%s", text)
		}
	}
	c.Kubectl(t, "wait", "--for=condition=Established", "crd/gizmos.memory.example.com", "crd/widgets.memory.example.com")
	many := 60
	if test.Long() {
		many = 10_000
	}
	first, all := number("SEED", 1), number("SEQUENCES", many)
	var next, differ atomic.Int64
	var workers sync.WaitGroup
	for range 6 {
		workers.Go(func() {
			for n := next.Add(1) - 1; n < int64(all) && differ.Load() < 5; n = next.Add(1) - 1 {
				seed := uint64(first) + uint64(n)
				e := &equal{ctx: t.Context(), r: rand.New(rand.NewPCG(seed, 0)), ns: fmt.Sprintf("equal-%d-%d", os.Getpid(), seed)}
				for i, s := range []side{{do: http.DefaultClient.Do, host: server.URL}, {do: client.Do, host: config.Host}} {
					s.uids, s.version = map[string]string{}, map[string]string{}
					e.sides[i] = &s
				}
				if difference := e.run(); difference != "" {
					differ.Add(1)
					t.Errorf("sequence %d: SEED=%[1]d SEQUENCES=1\n%s", seed, difference)
				}
			}
		})
	}
	workers.Wait()
	t.Logf("%d sequences, %d differ", min(next.Load(), int64(all)), differ.Load())
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil {
		return n
	}
	return otherwise
}
