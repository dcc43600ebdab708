// Package examples runs every example as in its README: with its own permissions on a real control plane, until the
// cluster is in the state that the example promises.
package examples

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// example is one folder and the operator that runs its hooks.
type example struct {
	t         testing.TB
	cluster   *testenv.Cluster
	name      string
	namespace string
	operator  *testenv.Operator
	// env is for every operator that the test starts.
	env []string
	// mysql is the server of the example that has one.
	mysql *test.MysqlServer
}

// killed makes each of the programs kill one run half-way.
func (e *example) killed(programs ...string) *example {
	e.t.Helper()
	e.env = append(e.env, killedOnce(e.t, programs...), retryMinDelay, retryMaxDelay)
	return e
}

var clusterWide sync.Mutex

// install applies the manifests that the example needs; the Deployment is for machines with nodes. Webhooks are for the test's namespace
// only, so their configurations have a name of their own.
func (e *example) install() {
	e.t.Helper()
	own := strings.NewReplacer(e.name+"-hooks", e.namespace+"-hooks")
	e.t.Cleanup(func() {
		e.kubectl("delete", "mutatingwebhookconfiguration,validatingwebhookconfiguration", e.namespace+"-hooks", "--ignore-not-found")
	})
	e.kubectl("label", "namespace", e.namespace, "example.com/"+e.name+"=enabled")
	e.kubectl("wait", "--for=create", "serviceaccount/default", "--timeout=60s")
	// What is not in a namespace is the same for all tests of an example: two that create it concurrently would conflict.
	clusterWide.Lock()
	defer clusterWide.Unlock()
	for _, file := range []string{"crd.yaml", "rbac.yaml"} {
		text, err := os.ReadFile(filepath.Join(e.name, "manifests", file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			e.t.Fatal(err)
		}
		manifests := own.Replace(string(text))
		// kubectl -n does not set this namespace.
		e.input(regexp.MustCompile(`(?m)^  namespace: .*$`).ReplaceAllString(manifests, "  namespace: "+e.namespace), "apply", "-f", "-")
		if file == "rbac.yaml" { // a run that is refused would be one that has failed
			e.cluster.UntilRoles(e.t, "system:serviceaccount:"+e.namespace+":"+e.name, e.namespace,
				regexp.MustCompile(`(?m)^  namespace: .*\n`).ReplaceAllString(manifests, ""))
		} else {
			e.input(manifests, "wait", "--for=condition=established", "--timeout=60s", "-f", "-")
		}
	}
}

// start starts the operator as the example's ServiceAccount.
func (e *example) start(env ...string) {
	e.t.Helper()
	e.operator = testenv.Start(e.t, testenv.OperatorOptions{
		HooksDir: filepath.Join(e.name, "hooks"), Kubeconfig: e.cluster.KubeconfigOf(e.t, e.namespace, e.name),
		Env: slices.Concat([]string{"WATCH_NAMESPACE=" + e.namespace, "VALIDATING_WEBHOOK_CONFIGURATION_NAME=" + e.namespace, pythonPath()},
			e.env, env),
	})
}

// pythonPath lets hooks in Python find the library, as in the image.
func pythonPath() string { return "PYTHONPATH=" + filepath.Join(test.Root(), "sdk", "python") }

func (e *example) kubectl(args ...string) string { e.t.Helper(); return e.input("", args...) }

func (e *example) input(input string, args ...string) string {
	e.t.Helper()
	return e.cluster.KubectlInput(e.t, input, append([]string{"-n", e.namespace}, args...)...)
}

// until waits until the cluster is in a state. It checks after each run.
func (e *example) until(what string, reached func() bool) {
	e.t.Helper()
	seen := -1
	e.operator.Until(what, func([]testenv.Record) bool {
		runs := e.operator.Count("Hook executed successfully")
		if runs == seen {
			return false
		}
		seen = runs
		return reached()
	})
}

// try is input for a command that may fail. It returns the output of kubectl, warnings too.
func (e *example) try(input string, args ...string) (string, error) {
	e.t.Helper()
	return e.cluster.TryKubectl(input, append([]string{"-n", e.namespace}, args...)...)
}

// patient repeats a request until the API server calls the webhooks: it does so a moment after they are registered, without
// a notification.
func (e *example) patient(what string, done func() bool) {
	e.t.Helper()
	for late := time.Now().Add(test.Patience); !done(); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(late) {
			e.t.Fatalf("waited for %s", what)
		}
	}
}
