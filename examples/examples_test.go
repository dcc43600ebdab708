// Package examples runs every example as in its README: with its own permissions on a real control plane, until the
// cluster is in the state that the example promises.
package examples

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// example is one folder and the operator that runs its hooks.
type example struct {
	t         *testing.T
	cluster   *testenv.Cluster
	name      string
	namespace string
	operator  *testenv.Operator
	// env is for every operator that the test starts.
	env []string
	// kills: the first run is killed.
	kills bool
}

// killedAndUndisturbed runs a test with hooks of which each of the programs kills one run half-way, and in make long without
// kills, too. The cluster has to reach the same state.
func killedAndUndisturbed(t *testing.T, prepare func(*testing.T, string) *example, name string, programs []string, run func(*example)) {
	t.Parallel()
	// prepareAlone is for examples with a ClusterRoleBinding, which has one subject: one runs after the other.
	t.Run("killed", func(t *testing.T) { run(prepare(t, name).killed(programs...)) })
	// A program that kills hides the trimmed kubectl, so this is also the test with that one. In make test the README has it, which
	// test/tutorial follows.
	if test.Long() {
		t.Run("undisturbed", func(t *testing.T) { run(prepare(t, name)) })
	}
}

// killed makes each of the programs kill one run half-way.
func (e *example) killed(programs ...string) *example {
	e.t.Helper()
	e.env, e.kills = []string{killedOnce(e.t, programs...), retryMinDelay, retryMaxDelay}, true
	return e
}

// restart ends the operator and starts another one, which finds everything done.
func (e *example) restart(env ...string) {
	e.t.Helper()
	e.stop()
	e.start(env...)
}

// prepare applies the manifests that the example needs. The Deployment is for machines with nodes.
func prepare(t *testing.T, name string) *example {
	t.Helper()
	t.Parallel()
	return prepareAlone(t, name)
}

var clusterWide sync.Mutex

// prepareAlone is prepare for tests that cannot run beside others.
func prepareAlone(t *testing.T, name string) *example {
	t.Helper()
	return prepareOn(t, name, testenv.Shared(t))
}

// prepareOn is prepare on another control plane, for hooks that read objects of all namespaces.
func prepareOn(t *testing.T, name string, cluster *testenv.Cluster) *example {
	t.Helper()
	e := &example{t: t, cluster: cluster, name: name, namespace: cluster.Namespace(t)}
	// What is not in a namespace is the same for all tests of an example: two that create it concurrently would conflict.
	clusterWide.Lock()
	defer clusterWide.Unlock()
	for _, file := range []string{"crd.yaml", "rbac.yaml"} {
		text, err := os.ReadFile(filepath.Join(name, "manifests", file))
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		// kubectl -n does not set this namespace.
		e.input(regexp.MustCompile(`(?m)^  namespace: .*$`).ReplaceAllString(string(text), "  namespace: "+e.namespace), "apply", "-f", "-")
		if file == "rbac.yaml" { // a run that is refused would be one that has failed
			e.cluster.UntilRoles(t, "system:serviceaccount:"+e.namespace+":"+name, e.namespace,
				regexp.MustCompile(`(?m)^  namespace: .*\n`).ReplaceAllString(string(text), ""))
		} else {
			e.input(string(text), "wait", "--for=condition=established", "--timeout=60s", "-f", "-")
		}
	}
	return e
}

// start starts the operator as the example's ServiceAccount.
func (e *example) start(env ...string) {
	e.t.Helper()
	e.operator = testenv.Start(e.t, testenv.OperatorOptions{
		HooksDir: filepath.Join(e.name, "hooks"), Kubeconfig: e.cluster.KubeconfigOf(e.t, e.namespace, e.name),
		Env: slices.Concat(e.env, env, []string{"WATCH_NAMESPACE=" + e.namespace, pythonPath()}),
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
	e.operator.Until(what, func(records []testenv.Record) bool {
		runs := 0
		for _, r := range records {
			if r.Has("Hook executed successfully") {
				runs++
			}
		}
		if runs == seen {
			return false
		}
		seen = runs
		return reached()
	})
}

// prints waits for a line of the hook.
func (e *example) prints(line string) {
	e.t.Helper()
	e.operator.UntilLog(line, "output", "stdout")
}

func TestMonitorPods(t *testing.T) {
	killedAndUndisturbed(t, prepare, "monitor-pods", []string{"jq"}, monitorPods)
}

func monitorPods(e *example) {
	e.start()
	e.operator.UntilLog("Unlock kubernetes.Event tasks")
	// The Deployment's controller adds all five in one burst.
	e.kubectl("create", "deployment", "web", "--image=nginx", "--replicas=5")
	added := regexp.MustCompile(`^Pod 'web-.*' added$`)
	e.operator.Until("five Pods", func(records []testenv.Record) bool {
		names := map[string]bool{}
		for _, r := range records {
			if added.MatchString(r.Fields["msg"]) {
				names[r.Fields["msg"]] = true
			}
		}
		return len(names) == 5
	})
	// To the next operator they are not new.
	e.restart()
	e.prints("Pod 'web-")
	for _, r := range e.operator.Records() {
		if added.MatchString(r.Fields["msg"]) {
			e.t.Errorf("added again: %s", r.Fields["msg"])
		}
	}
}

func TestUsersHtpasswd(t *testing.T) {
	killedAndUndisturbed(t, prepare, "users-htpasswd", []string{"kubectl", "htpasswd"}, usersHtpasswd)
}

func usersHtpasswd(e *example) {
	e.start()
	var users strings.Builder
	names := []string{"alice", "bob", "carol", "dave", "erin"}
	for _, name := range names {
		fmt.Fprintf(&users, "---\napiVersion: example.com/v1\nkind: User\nmetadata: {name: %s}\nspec: {name: %s, password: \"%s's $ecret\"}\n",
			name, name, name)
	}
	e.operator.UntilLog("Unlock kubernetes.Event tasks")
	e.input(users.String(), "create", "-f", "-")
	e.until("a line for each of five users", func() bool { return slices.Equal(e.htpasswdNames(), names) })
	before := e.htpasswd()

	e.kubectl("patch", "users.example.com", "alice", "--type=merge", "-p", `{"spec":{"password":"new"}}`)
	e.kubectl("delete", "users.example.com", "bob")
	e.until("alice's new hash, and no bob", func() bool {
		return slices.Equal(e.htpasswdNames(), []string{"alice", "carol", "dave", "erin"}) && e.htpasswd()["alice"] != before["alice"]
	})
	if e.htpasswd()["carol"] != before["carol"] {
		e.t.Error("carol's hash has changed, but her password has not")
	}
	for _, r := range e.operator.Records() {
		if strings.Contains(r.Text, "$ecret") {
			e.t.Errorf("a password is in the log: %s", r.Text)
		}
	}
	after := e.htpasswd()
	e.restart()
	e.operator.UntilLog("Unlock kubernetes.Event tasks")
	if !maps.Equal(e.htpasswd(), after) {
		e.t.Error("the next operator has changed the file")
	}
}

// htpasswd returns the hashes in the Secret by user.
func (e *example) htpasswd() map[string]string {
	e.t.Helper()
	lines := map[string]string{}
	text, err := base64.StdEncoding.DecodeString(e.kubectl("get", "secret", "htpasswd", "--ignore-not-found", "-o",
		"jsonpath={.data.htpasswd}"))
	if err != nil {
		e.t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if name, hash, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			lines[name] = hash
		}
	}
	return lines
}

func (e *example) htpasswdNames() []string {
	e.t.Helper()
	var names []string
	for name := range e.htpasswd() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestPlatformInstaller(t *testing.T) {
	killedAndUndisturbed(t, prepare, "platform-installer", []string{"kubectl"}, platformInstaller)
}

func platformInstaller(e *example) {
	const cluster = `{"apiVersion":"example.com/v1","kind":"ClusterConfiguration","metadata":{"name":"cluster"},
		"spec":{"components":{"dns":{"enabled":true},"logging":{"enabled":false},"ingress":{"enabled":true}}}}`
	e.input(cluster, "create", "-f", "-")
	e.start("CHECK_CRONTAB=*/2 * * * * *")

	// The object that exists at the start is an "add" to a hook of the old format.
	e.prints("Installation of 'cluster' is done: dns, ingress")
	e.until("the first installation in the status", func() bool { return e.installed() == "1 [dns ingress]" })

	e.kubectl("patch", "clusterconfigurations.example.com", "cluster", "--type=merge", "-p",
		`{"spec":{"components":{"dns":{"enabled":false},"logging":{"enabled":true}}}}`)
	e.prints("Task: remove dns")
	e.until("the second installation in the status", func() bool { return e.installed() == "2 [ingress logging]" })
	e.prints("Check: ClusterConfiguration 'cluster' is installed with")

	// Added again while the operator runs.
	e.kubectl("delete", "clusterconfigurations.example.com", "cluster")
	e.input(cluster, "create", "-f", "-")
	e.until("the installation of the new object", func() bool { return e.installed() == "1 [dns ingress]" })
	// The next operator installs again, with the same result.
	e.restart("CHECK_CRONTAB=@daily")
	e.prints("Installation of 'cluster' is done: dns, ingress")
	e.until("the same status", func() bool { return e.installed() == "1 [dns ingress]" })
}

// installed returns the generation and the components in the status.
func (e *example) installed() string {
	e.t.Helper()
	var object struct {
		Status struct {
			ObservedGeneration int
			Components         []string
		}
	}
	text := e.kubectl("get", "clusterconfigurations.example.com", "cluster", "-o", "json")
	if err := json.Unmarshal([]byte(text), &object); err != nil {
		e.t.Fatal(err)
	}
	return fmt.Sprint(object.Status.ObservedGeneration, " ", object.Status.Components)
}

func TestSecretCopier(t *testing.T) {
	killedAndUndisturbed(t, prepareAlone, "secret-copier", []string{"jq"}, secretCopier)
}

func secretCopier(e *example) {
	targets := []string{}
	for range 5 {
		targets = append(targets, e.cluster.Namespace(e.t))
	}
	e.kubectl("create", "secret", "generic", "shared-secret", "--from-literal=key=first")
	e.start("SOURCE_NAMESPACE=" + e.namespace)
	e.operator.UntilLog("Unlock kubernetes.Event tasks")

	all := func(want string) func() bool {
		return func() bool {
			for _, ns := range targets {
				if e.copied(ns) != want {
					return false
				}
			}
			return true
		}
	}
	e.kubectl(append(append([]string{"label", "namespace"}, targets...), "example.com/copy-secret=enabled")...)
	e.until("copies in five namespaces", all("first"))
	e.kubectl("patch", "secret", "shared-secret", "-p", `{"stringData":{"key":"second"}}`)
	e.until("the change in all copies", all("second"))
	e.kubectl("-n", targets[0], "delete", "secret", "shared-secret")
	e.until("the deleted copy again", all("second"))
	e.kubectl("label", "namespace", targets[1], "example.com/copy-secret-")
	e.until("no copy where the label went", func() bool { return e.copied(targets[1]) == "" })
	// The next operator finds nothing to do.
	version := func() string {
		return e.kubectl("-n", targets[2], "get", "secret", "shared-secret", "-o", "jsonpath={.metadata.resourceVersion}")
	}
	before := version()
	e.restart("SOURCE_NAMESPACE=" + e.namespace)
	e.operator.UntilLog("Unlock kubernetes.Event tasks")
	if after := version(); after != before {
		e.t.Errorf("the next operator has written a copy again: %s, before %s", after, before)
	}
	e.kubectl("delete", "secret", "shared-secret")
	e.until("no copies without the source", all(""))
}

func (e *example) copied(namespace string) string {
	e.t.Helper()
	text, err := base64.StdEncoding.DecodeString(e.kubectl("-n", namespace, "get", "secret", "shared-secret", "--ignore-not-found", "-o",
		"jsonpath={.data.key}"))
	if err != nil {
		e.t.Fatal(err)
	}
	return string(text)
}
