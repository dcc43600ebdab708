package applyset

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/jq"
	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
	"github.com/shell-operator/shell-operator/internal/wire"
)

// traffic counts the requests of a client, but for discovery, and lets a test interfere.
type traffic struct {
	mu    sync.Mutex
	count map[string]int
	// before is called before a request is sent, after when it is answered, with its number. An error of after hides the response.
	before func(n int, r *http.Request) error
	after  func(n int, r *http.Request) error
	total  int
}

func (c *traffic) wrap(next http.RoundTripper) http.RoundTripper { return counted{c, next} }

type counted struct {
	*traffic
	next http.RoundTripper
}

func (c counted) RoundTrip(r *http.Request) (*http.Response, error) {
	if strings.Count(r.URL.Path, "/") < 4 && !strings.HasPrefix(r.URL.Path, "/api/v1/namespaces") {
		return c.next.RoundTrip(r)
	}
	verb := r.Method
	switch {
	case r.URL.Query().Has("watch"):
		verb = "WATCH"
	case r.URL.Query().Has("labelSelector"):
		verb = "LIST"
	}
	c.mu.Lock()
	c.total++
	n := c.total
	c.count[verb]++
	before, after := c.before, c.after
	c.mu.Unlock()
	if before != nil {
		if err := before(n, r); err != nil {
			return nil, err
		}
	}
	res, err := c.next.RoundTrip(r)
	if err == nil && after != nil {
		if err := after(n, r); err != nil {
			res.Body.Close()
			return nil, err
		}
	}
	return res, err
}

func (c *traffic) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var parts []string
	for verb, n := range c.count {
		parts = append(parts, fmt.Sprintf("%s %d", verb, n))
	}
	slices.Sort(parts)
	c.count = map[string]int{}
	return strings.Join(parts, ", ")
}

// operator is an Applier as a process of an operator has it.
type operator struct {
	*Applier
	options Options
	traffic *traffic
	log     *bytes.Buffer
	// finalizer: a binding of the hook has one.
	finalizer bool
}

func newOperator(t testing.TB, config *rest.Config, namespace, instance string, dryRun bool) *operator {
	t.Helper()
	o := &operator{traffic: &traffic{count: map[string]int{}}, log: &bytes.Buffer{}}
	config = rest.CopyConfig(config)
	config.Wrap(o.traffic.wrap)
	client := testenv.Client(t, config)
	o.options = Options{Client: client, Resolver: kube.NewResolver(client), Instance: instance, Namespace: namespace, Version: "v0",
		DryRun: dryRun}
	o.Applier = New(o.options)
	return o
}

// sync applies the Syncs of a file.
func (o *operator) sync(ctx context.Context, hook, text string) error {
	patches, err := wire.ParsePatches([]byte(text), jq.NewCompiler(jq.Options{}))
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(o.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	for _, p := range patches {
		if o.finalizer {
			p.Set.Finalizers = []string{"example.com/hold"}
		}
		if err := o.Sync(ctx, log, hook, p.Set, func(string, ...kube.Rule) {}); err != nil {
			return err
		}
	}
	return nil
}

// inMemory returns an API server in memory for a test in which clients, and no controllers, change objects; make long runs it on a real
// one.
func inMemory(t testing.TB) *testenv.Cluster {
	t.Helper()
	testenv.Require(t) // for kubectl
	if test.Long() {
		return testenv.Shared(t)
	}
	return testenv.Memory(t)
}

// withControllers are the scripts that need controllers or permissions.
var withControllers = []string{"foreign", "kept", "permissions", "drift", "kept-live"}

// TestScripts runs the files of testdata: their parts are steps, in order. $NS is a namespace of the test.
//
//	sync [hook=NAME] [instance=NAME] [as=alice] [dry] [finalizer]   syncs the set
//	sets                                       lists the sets of the last sync's operator; want is the list
//	error                                      a part of the error that the last sync returned; it must return none otherwise
//	requests                                   the requests of the last sync
//	log                                        a part of the log of the last sync's operator; absent: what is not in it
//	allowed USER VERB RESOURCE                 waits until a Role is effective
//	restart                                    all that the processes know is lost
//	kubectl ARGS                               with standard input; want is its output, other what it is not
//	define NAME                                $NAME stands for the text, or for the last output if there is none
//	settles                                    repeats the last sync until these are its requests
//	adopt HOOK SET NAME                        gives the set of another process another name
//
// After "restorer", sets are restored, unless it is paused or cut off. These steps wait for the next report, which has the text:
//
//	differs, warned, logged, watches, asked    a change, a warning, a record of the log, a watch, a question whether the hook runs
//	contested                                  the notes about what is not restored, which are there already
func TestScripts(t *testing.T) {
	shared := testenv.Shared(t)
	t.Setenv("KUBECTL_APPLYSET", "true") // it is an alpha feature of kubectl
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".txtar")
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cluster := shared
			if !slices.Contains(withControllers, name) {
				cluster = inMemory(t)
			}
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			runScript(t, cluster, archive.Files)
		})
	}
}

func runScript(t *testing.T, cluster *testenv.Cluster, steps []txtar.File) {
	namespace := cluster.Namespace(t)
	if cluster != testenv.Shared(t) { // as a controller does it
		post(t, testenv.Client(t, cluster.Config(t)), namespace, "configmaps", `{"metadata": {"name": "kube-root-ca.crt"}}`)
	}
	operators, defined, document := map[string]*operator{}, map[string]string{"NS": namespace}, ""
	var last *operator
	var r *restorer
	var failure, output string
	for i, step := range steps {
		fill := func(text string) string {
			for name, value := range defined {
				text = strings.ReplaceAll(text, "$"+name, value)
			}
			return text
		}
		verb, args, _ := strings.Cut(fill(step.Name), " ")
		text := strings.TrimSpace(fill(string(step.Data)))
		expect := func(what, got string, met bool) {
			t.Helper()
			if !met {
				t.Fatalf("step %d, %s: got\n%s\nwant\n%s", i+1, what, got, text)
			}
		}
		switch verb {
		case "sync":
			if failure != "" {
				t.Fatalf("step %d: the sync before it failed: %s", i+1, failure)
			}
			options := map[string]string{"hook": "web.sh", "instance": namespace}
			for word := range strings.FieldsSeq(args) {
				key, value, _ := strings.Cut(word, "=")
				options[key] = value
			}
			_, dry := options["dry"]
			who := options["instance"] + fmt.Sprint(dry) + options["as"]
			if operators[who] == nil {
				config := cluster.Config(t)
				if options["as"] != "" {
					config = testenv.Config(t, cluster.UserKubeconfig)
				}
				operators[who] = newOperator(t, config, namespace, options["instance"], dry)
			}
			last = operators[who]
			_ = last.traffic.String()
			failure = ""
			_, last.finalizer = options["finalizer"]
			document = text
			if err := last.sync(t.Context(), options["hook"], text); err != nil {
				failure = err.Error()
			}
		case "settles":
			for _ = last.traffic.String(); last.traffic.String() != text; {
				if err := last.sync(t.Context(), "web.sh", document); err != nil {
					t.Fatalf("step %d: %v", i+1, err)
				}
			}
		case "restorer":
			r = newRestorer(t, cluster, namespace)
			operators[namespace+"false"] = r.operator
		case "paused", "cutoff":
			map[string]*atomic.Bool{"paused": &r.paused, "cutoff": &r.cutOff}[verb].Store(args == "true")
			r.Recheck()
		case "differs", "warned", "logged", "watches", "asked":
			until(t, map[string]chan string{"differs": r.differs, "warned": r.warned, "logged": r.logged, "watches": r.watches,
				"asked": r.asked}[verb], text)
		case "contested":
			notes := ""
			for _, c := range r.Contested() {
				notes += strings.Join(c.Notes, "\n")
			}
			expect("the notes", notes, strings.Contains(notes, text) && (text != "" || notes == ""))
		case "adopt":
			words := strings.Fields(args)
			command := newOperator(t, cluster.Config(t), namespace, namespace, false)
			sets, err := command.List(t.Context())
			at := slices.IndexFunc(sets, func(s Set) bool { return s.Name == words[1] })
			if err == nil {
				_, _, err = command.Adopt(t.Context(), slog.New(slog.DiscardHandler), sets[at].ID, Move{Hook: words[0], Name: words[2]})
			}
			expect("the adoption", fmt.Sprint(err), err == nil)
		case "define":
			defined[args] = cmp.Or(text, output)
		case "error":
			expect("the error", failure, failure != "" && strings.Contains(failure, text))
			failure = ""
		case "sets":
			sets, err := last.List(t.Context())
			if failure = ""; err != nil {
				failure = err.Error()
			}
			var lines []string
			for _, s := range sets {
				lines = append(lines, s.Name+" of "+s.Hook)
			}
			output = strings.Join(lines, "\n")
		case "requests":
			got := last.traffic.String()
			expect("the requests", got, got == text)
		case "log":
			expect("the log", last.log.String(), strings.Contains(last.log.String(), text))
		case "absent":
			expect("the log", last.log.String(), !strings.Contains(last.log.String(), text))
		case "allowed":
			words := strings.Fields(args)
			cluster.UntilAllowed(t, words[0], namespace, words[1], words[2])
		case "restart":
			clear(operators)
		case "kubectl":
			if failure != "" {
				t.Fatalf("step %d: the sync before it failed: %s", i+1, failure)
			}
			words := strings.Fields(args)
			if !slices.Contains(words, "-n") && !slices.Contains(words, "-A") {
				words = append([]string{"-n", namespace}, words...)
			}
			out, err := cluster.TryKubectl(text, words...)
			output = strings.TrimSpace(out)
			if err != nil {
				t.Fatalf("step %d: kubectl %s: %v\n%s", i+1, args, err, out)
			}
		case "other":
			expect("another output", output, output != text)
		case "want":
			expect("the output", output, output == text)
		default:
			t.Fatalf("step %d: there is no step %q", i+1, verb)
		}
	}
	if failure != "" {
		t.Fatalf("the last sync failed: %s", failure)
	}
}

// A CRD is deleted and created with another scope while the operator runs: the set follows.
func TestOtherScope(t *testing.T) {
	cluster := testenv.Shared(t)
	namespace := cluster.Namespace(t)
	o := newOperator(t, cluster.Config(t), namespace, namespace, false)
	name := "things." + namespace + ".example.com"
	for _, scope := range []string{"Namespaced", "Cluster", "Namespaced"} {
		document := fmt.Sprintf(`{operation: Sync, set: web, objects: [{apiVersion: %[1]s.example.com/v1, kind: Thing, metadata: {name: one}},
{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: things.%[1]s.example.com},
spec: {group: %[1]s.example.com, scope: %[2]s, names: {kind: Thing, plural: things}, versions: [{name: v1, served: true, storage: true,
schema: {openAPIV3Schema: {type: object}}}]}}]}`, namespace, scope)
		var err error
		for attempt := 0; attempt == 0 || err != nil && attempt < 100; attempt++ { // as a queue does it
			err = o.sync(t.Context(), "web.sh", document)
		}
		if err != nil {
			t.Fatalf("%s: %v", scope, err)
		}
		cluster.Kubectl(t, "-n", namespace, "get", name, "one")
		cluster.Kubectl(t, "delete", "crd", name)
	}
}
