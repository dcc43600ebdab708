// Package internal has one test: the directions of imports between our packages.
package internal

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/shell-operator/shell-operator/"

// Imports point one way: cmd → app → stages → formats → values. Each package of ours may import the ones in its row
// and no others.
var directions = []struct {
	pkg    string
	may    []string
	reason string
}{
	{"internal/shard", nil, "values import nothing"},
	{"internal/hook", []string{"internal/shard"}, "a setting of hooks is a value of shard"},
	{"internal/event", []string{"internal/hook"}, "an event carries its address"},
	{"internal/effect", nil, "values import nothing"},
	{"internal/spelling", nil, "a library for messages about unknown names"},
	{"internal/kube", []string{"internal/spelling"}, "everything generic about the API server"},
	{"internal/test", nil, "test programs that need no cluster are linked without its libraries"},
	{"internal/test/heads", []string{"internal/test", "internal/wire"}, "tests of the shell library use it, and no program"},
	{"internal/test/otlp", []string{"internal/test"}, "tests of traces use it, and no program: gRPC is large"},
	{"internal/test/pages", []string{"internal/test/golden"}, "tests of pages use it, and no program"},
	{"internal/test/browser", []string{"internal/test", "internal/test/golden"}, "tests in a browser use it, and no program"},
	{"internal/test/scripts", []string{"internal/jq", "internal/test", "internal/test/testenv"}, "tests of systems use it, and no program"},
	{"internal/test/golden", nil, "tests with expectations in files use it, and no program"},
	{"internal/queue", nil, "the order is independent of the tasks"},
	{"internal/jq", nil, "a library for formats and stages that read objects"},
	{"internal/debug/history", []string{"internal/run", "internal/run/kubectl"}, "it stores runs, with the changes of their reports"},
	{"internal/debug", []string{
		"internal/hook", "internal/event", "internal/wire", "internal/debug/history", "internal/httpserver", "internal/spelling",
		"internal/telemetry",
		"internal/lifecycle", "internal/queue", "internal/run", "internal/run/pending", "internal/run/worker",
		"internal/effect/apply",
		"internal/effect/applyset", "internal/effect/finalizer", "internal/hookset", "internal/source/watch", "internal/source/webhook",
	}, "topics show stages, which do not know of them; app gives them the stages"},
	{"internal/console", []string{"internal/debug", "internal/debug/history", "internal/effect", "internal/httpserver"},
		"pages for a person, of the answers of debug; only its command imports it, and gives it the API"},
	{"internal/telemetry", []string{"internal/telemetry/logonce"}, "the logger is created before all else"},
	{"internal/telemetry/logonce", nil, "suppresses repeated records of any package"},
	{"internal/telemetry/kubeevent", []string{"internal/kube"}, "it receives names and texts only"},
	{"internal/script", nil, "the text of hooks, for those that load and check them"},
	{"internal/schema", []string{"internal/jq"}, "a library for files that people write"},
	{"internal/wire",
		[]string{"internal/hook", "internal/event", "internal/effect", "internal/shard", "internal/jq", "internal/schema",
			"internal/spelling", "docs"},
		"formats parse and write values"},
	{"internal/hookset",
		[]string{"internal/hook", "internal/shard", "internal/script", "internal/wire", "internal/jq", "internal/filewatch",
			"internal/run/kubectl", "internal/run/process", "internal/source/schedule", "sdk"},
		"a config call is a process, and its output is validated"},
	{"internal/replica", []string{"internal/kube", "internal/replica/ownership", "internal/shard", "internal/telemetry/logonce"},
		"leader election and shards are independent of the stages"},
	{"internal/replica/ownership", nil, "a pure state machine"},
	{"internal/source/schedule", nil, "a stage that fires crontabs"},
	{"internal/source/stream", []string{"internal/shard", "internal/jq", "internal/kube"},
		"from bytes to objects; it knows no hook and no event"},
	{"internal/source/installed", []string{"internal/kube", "internal/source/stream"}, "which kinds are installed; it knows no binding"},
	{"internal/source/selectors", []string{"internal/effect", "internal/source/stream"}, "objects as values, with the selectors of scopes"},
	{"internal/source/watch",
		[]string{"internal/hook", "internal/event", "internal/effect", "internal/shard", "internal/jq", "internal/kube",
			"internal/source/installed", "internal/source/selectors", "internal/source/stream", "internal/telemetry/logonce"},
		"a stage that makes events, and compares its objects with the answers to changes"},
	{"internal/source/finalizer",
		[]string{"internal/hook", "internal/event", "internal/kube", "internal/source/stream", "internal/source/watch"},
		"a guard of bindings: package watch calls it by an interface"},
	{"internal/httpserver", []string{"internal/telemetry/logonce"}, "a library for packages that listen"},
	{"internal/filewatch", nil, "hookset and cert both follow files"},
	{"internal/source/webhook/keep", []string{"internal/hook", "internal/kube"}, "objects of the cluster"},
	{"internal/source/webhook/cert", []string{"internal/filewatch", "internal/kube", "internal/source/webhook/keep"},
		"certificates for any server"},
	{"internal/source/webhook/admission",
		[]string{"internal/hook", "internal/event", "internal/effect", "internal/httpserver", "internal/kube", "internal/source/webhook/keep"},
		"a stage; app provides the runs"},
	{"internal/source/webhook/conversion",
		[]string{"internal/hook", "internal/event", "internal/effect", "internal/httpserver", "internal/kube", "internal/telemetry/logonce",
			"internal/source/webhook/keep"},
		"a stage; app provides the runs"},
	{"internal/source/http", []string{"internal/hook", "internal/event", "internal/effect", "internal/httpserver"},
		"a stage; app provides the runs"},
	{"internal/source/webhook", []string{
		"internal/hook", "internal/kube", "internal/httpserver", "internal/source/http",
		"internal/source/webhook/admission", "internal/source/webhook/cert", "internal/source/webhook/conversion",
		"internal/source/webhook/keep",
	}, "the servers of webhooks and HTTP hooks; app provides the runs"},
	{"internal/run/worker", []string{"internal/run/process"}, "processes that serve runs"},
	{"internal/run/kubectl", nil, "the environment of runs, and a file in a format of its own"},
	{"internal/run/workspace", nil, "files of runs with any content"},
	{"internal/run/recording",
		[]string{"internal/hook", "internal/effect", "internal/wire", "internal/jq", "internal/run", "internal/run/workspace"},
		"a companion of runs: what a run got and wrote, as text without secrets"},
	{"internal/run/traces", []string{"internal/event", "internal/hook", "internal/run", "internal/run/process"}, "a companion of runs"},
	{"internal/run/ownwrites", []string{"internal/hook", "internal/effect", "internal/run"},
		"a companion of runs; package watch compares its snapshots with the writes"},
	{"internal/run/pending", []string{"internal/hook", "internal/event", "internal/effect", "internal/run"},
		"a companion of runs: what hooks get again, as plain data"},
	{"internal/run",
		[]string{"internal/hook", "internal/event", "internal/effect", "internal/wire", "internal/run/kubectl", "internal/run/process",
			"internal/run/workspace"},
		"a stage; queues, snapshots and effects are interfaces to it, the result of a run is a value of effect"},
	{"internal/effect/patch", []string{"internal/effect", "internal/jq", "internal/kube"}, "a stage that changes the cluster"},
	{"internal/effect/applyset", []string{"internal/effect", "internal/kube"}, "a stage that makes sets of objects complete"},
	{"internal/effect/finalizer", []string{"internal/hook", "internal/kube"},
		"the record of finalizers; package source/finalizer decides when one is added"},
	{"internal/effect/metric", []string{"internal/effect"}, "a stage that keeps the metrics of hooks"},
	{"internal/effect/apply",
		[]string{"internal/hook", "internal/event", "internal/effect", "internal/shard", "internal/jq", "internal/kube", "internal/wire",
			"internal/run", "internal/run/process", "internal/effect/patch", "internal/effect/applyset", "internal/effect/metric",
			"internal/telemetry/kubeevent", "internal/source/http", "internal/source/webhook/admission", "internal/source/webhook/conversion"},
		"all effects of a run, of an operator and of package dev: it validates the files of runs, and returns responses to requests"},
	{"internal/dev/lint", []string{"internal/hook", "internal/script", "internal/dev/rbac"},
		"findings about files; dev provides files and programs, rbac knows the built-in kinds"},
	{"internal/dev/rbac", []string{"internal/hook", "internal/kube", "internal/shard", "internal/spelling"},
		"from hooks to roles; dev provides the names of the cluster"},
	{"internal/dev/memory", []string{"internal/kube", "internal/dev/rbac"},
		"an API server for the operator's own client; rbac has the built-in kinds"},
	{"internal/dev/simulate", []string{
		"internal/hook", "internal/event", "internal/effect", "internal/wire", "internal/jq", "internal/kube",
		"internal/shard", "internal/queue", "internal/run", "internal/run/", "internal/effect/apply", "internal/dev/memory", "internal/dev/rbac",
		"internal/dev/testfile", "internal/source/finalizer", "internal/source/watch", "internal/source/http",
		"internal/source/webhook/admission", "internal/source/webhook/conversion",
	}, "events pass through the stages without a cluster"},
	{"internal/dev/testfile", []string{"internal/wire", "internal/schema", "docs"}, "a format and its comparison; dev runs the cases"},
	{"internal/dev", []string{
		"internal/hook", "internal/event", "internal/effect", "internal/wire", "internal/jq", "internal/kube",
		"internal/hookset", "internal/filewatch", "internal/script", "internal/run", "internal/run/", "internal/effect/apply",
		"internal/dev/", "internal/shard",
		"internal/source/webhook/admission", "internal/source/webhook/cert", "internal/httpserver",
	}, "hooks are called, run and checked as the operator does"},
	{"internal/lifecycle", []string{"internal/hook", "internal/event", "internal/shard", "internal/hookset", "internal/queue", "internal/run",
		"internal/run/pending", "internal/source/schedule"}, "hooks start and end in all stages; those that need the API server are interfaces"},
	{"internal/app", []string{"internal/"}, "the only package that knows them all"},
	{"cmd/shell-operator",
		[]string{"internal/app", "internal/hook", "internal/lifecycle", "internal/run/kubectl", "internal/dev",
			"internal/dev/testfile", "internal/console", "internal/kube", "internal/effect/apply", "internal/source/webhook", "internal/debug",
			"internal/replica", "internal/shard", "internal/spelling", "internal/telemetry", "internal/dev/lint", "internal/dev/rbac",
			"internal/schema", "docs"},
		"flags, environment, signals and exit codes"},
}

// Libraries that only some packages may use.
var reserved = []struct {
	library string
	users   []string
	reason  string
}{
	{"k8s.io/client-go", []string{
		"internal/source/finalizer", "internal/source/installed", "internal/source/stream", "internal/source/watch",
		"internal/source/webhook/cert", "internal/source/webhook/admission", "internal/source/webhook/keep",
		"internal/source/webhook", "internal/source/http",
		"internal/effect/patch", "internal/effect/applyset", "internal/effect/finalizer", "internal/kube", "internal/replica",
		"internal/telemetry/kubeevent", "internal/effect/apply", "internal/app", "internal/test/testenv",
	}, "few packages use the API server; kube connects to it, and packages above pass the connection on"},
	{"sigs.k8s.io/yaml", []string{"internal/wire", "internal/debug", "cmd/shell-operator"},
		"wire alone knows hook-facing YAML, debug writes its answers, cmd prints results"},
	{"go.yaml.in/yaml/v3", []string{"internal/wire", "internal/dev/testfile", "cmd/shell-operator"},
		"wire alone knows hook-facing YAML, testfile the YAML of tests, cmd reads the file with settings"},
	{"github.com/spf13", []string{"cmd/shell-operator"}, "only cmd reads flags"},
	{"github.com/itchyny/gojq", []string{"internal/jq"}, "one dialect of jq"},
	{"github.com/prometheus",
		[]string{"internal/effect/metric", "internal/telemetry", "internal/debug", "internal/app"},
		"metrics are created in two places; topics have collectors"},
	{"mvdan.cc/sh", []string{"internal/script", "internal/dev/lint"}, "hooks are run by their own shells"},
	{"go.opentelemetry.io/otel/sdk", []string{"internal/telemetry"}, "one place sends spans"},
	{"go.opentelemetry.io/otel", []string{"internal/telemetry", "internal/run/traces", "internal/effect/apply", "internal/app"},
		"app hands out tracers, run/traces follows events with them"},
	{"github.com/chromedp", []string{"internal/test/browser"}, "one package opens browsers"},
	{"os/exec", []string{"cmd/shell-operator", "internal/test", "internal/test/heads", "internal/test/testenv", "internal/test/browser"},
		"hooks are run by run/process, which needs more than os/exec has; cmd runs kubectl as its plugin"},
	{"testing", []string{"internal/test", "internal/test/heads", "internal/test/otlp", "internal/test/testenv", "internal/test/browser",
		"internal/test/scripts",
		"internal/test/pages",
		"internal/test/golden"},
		"tests stay out of the program"},
}

func TestImports(t *testing.T) {
	out, err := exec.Command("go", "list", "-tags", "browser", "-f", `{{.ImportPath}} {{join .Imports " "}}`, module+"cmd/...",
		module+"internal/...").Output()
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		pkg := strings.TrimPrefix(words[0], module)
		for _, imported := range words[1:] {
			if own, isOwn := strings.CutPrefix(imported, module); isOwn {
				checkDirection(t, pkg, own)
			}
			for _, r := range reserved {
				if under(imported, r.library) && !slices.Contains(r.users, pkg) {
					t.Errorf("%s imports %s: %s", pkg, imported, r.reason)
				}
			}
		}
	}
}

func checkDirection(t *testing.T, pkg, imported string) {
	if pkg == "internal/test/testenv" {
		return // tests may import everything
	}
	for _, d := range directions {
		if d.pkg != pkg {
			continue
		}
		if !slices.ContainsFunc(d.may, func(may string) bool {
			return imported == may || strings.HasSuffix(may, "/") && strings.HasPrefix(imported, may)
		}) {
			t.Errorf("%s imports %s, but may import only %v: %s", pkg, imported, d.may, d.reason)
		}
		return
	}
	t.Errorf("%s has no row in this test: add one with its imports and the reason", pkg)
}

func under(imported, library string) bool {
	return imported == library || strings.HasPrefix(imported, library+"/")
}
