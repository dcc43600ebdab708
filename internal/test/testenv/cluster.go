// Package testenv gives tests a control plane and an operator.
//
// Callers may rely on this:
//   - Either is an API server in memory in make test, and the control plane in make test-cluster. A test that does not run on both calls
//     Shared or Own, or says by Needs why.
//   - A test that gets a Cluster has one. Without the binary of testcluster/ the test is skipped and says how to
//     get it; with TESTCLUSTER=required it fails instead. With -short it is always skipped.
//   - Everything that was started for a test has ended when the test has.
//   - Waiting is done on signals, never by polling.
package testenv

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/connrotation"

	"github.com/shell-operator/shell-operator/internal/kube"
	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/test"
)

// Cluster is a running control plane.
type Cluster struct {
	// Dir holds its files. Kubeconfig is for an administrator, UserKubeconfig for "alice", who has no
	// permission until RBAC grants one.
	Dir, Kubeconfig, UserKubeconfig string
	memory                          bool
}

// Shared returns the control plane that tests share. It is the one whose directory TESTCLUSTER_DIR names, or one for
// this process, which ends with it.
func Shared(t testing.TB) *Cluster {
	t.Helper()
	Require(t)
	c, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var shared = sync.OnceValues(func() (*Cluster, error) {
	if dir := os.Getenv("TESTCLUSTER_DIR"); dir != "" {
		return open(dir), nil
	}
	dir, err := os.MkdirTemp("", "testcluster-")
	if err != nil {
		return nil, err
	}
	_, err = start(dir, true, "--remove")
	return open(dir), err
})

// Own starts a control plane for one test, which may kill parts of it. The flags are more ones of testcluster start.
func Own(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	Require(t)
	dir, err := os.MkdirTemp("", "testcluster-")
	if err != nil {
		t.Fatal(err)
	}
	cmd, err := start(dir, false, flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("testcluster ended: %v", err)
		}
		_ = os.RemoveAll(dir)
	})
	return open(dir)
}

func open(dir string) *Cluster {
	return &Cluster{Dir: dir, Kubeconfig: filepath.Join(dir, "kubeconfig"), UserKubeconfig: filepath.Join(dir, "user.kubeconfig")}
}

// Require skips or fails a test that cannot have a cluster.
func Require(t testing.TB) {
	t.Helper()
	switch {
	case testing.Short():
		t.Skip("needs a control plane, which -short leaves out")
	case os.Getenv("TESTCLUSTER") == "memory":
		t.Skip("not in memory: needs a real control plane: make test-cluster")
	}
	if _, err := os.Stat(testclusterBinary()); err == nil || os.Getenv("TESTCLUSTER_DIR") != "" {
		return
	}
	const how = "needs a control plane: run 'make testcluster' once, or all such tests with 'make test-cluster'"
	if os.Getenv("TESTCLUSTER") == "required" {
		t.Fatal(how)
	}
	t.Skip(how)
}

func testclusterBinary() string { return filepath.Join(test.Root(), "bin", "testcluster") }

// start returns when the control plane is ready.
func start(dir string, endWithUs bool, flags ...string) (*exec.Cmd, error) {
	cmd := exec.Command(testclusterBinary(), append([]string{"start", "--dir", dir}, flags...)...)
	cmd.Env = append(os.Environ(), "GOGC=400") // less memory than in with-cluster.sh: there are several
	if endWithUs {
		cmd.SysProcAttr = endWithParent()
	}
	var errors bytes.Buffer
	cmd.Stderr = &errors
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := startWithParent(cmd); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || strings.TrimSpace(line) != "ready" {
		_ = cmd.Wait()
		return nil, fmt.Errorf("testcluster did not start: %s", errors.String())
	}
	return cmd, nil
}

// starter runs functions on a thread that lives as long as this process.
var starter = sync.OnceValue(func() chan<- func() {
	work := make(chan func())
	go runOnOneThread(work)
	return work
})

func runOnOneThread(work <-chan func()) {
	lockThreadForever()
	for do := range work {
		do()
	}
}

// startWithParent starts a process that ends with this one: the kernel ties such a child to the thread that started it.
func startWithParent(cmd *exec.Cmd) error {
	started := make(chan error)
	starter() <- func() { started <- cmd.Start() }
	return <-started
}

// Config is Config of the administrator.
func (c *Cluster) Config(t testing.TB) *rest.Config {
	t.Helper()
	return Config(t, c.Kubeconfig)
}

// Clientset is a typed client without limits.
func (c *Cluster) Clientset(t testing.TB) *kubernetes.Clientset {
	t.Helper()
	client, err := kubernetes.NewForConfig(c.Config(t))
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Config is a client configuration without limits. The connections of its clients end with the test: those on which a watch
// has just been broken off are not idle yet, so closing idle ones would leave them.
func Config(t testing.TB, kubeconfig string) *rest.Config {
	t.Helper()
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	config.QPS, config.Burst = -1, -1
	dialer := connrotation.NewDialer((&net.Dialer{}).DialContext)
	config.Dial = dialer.DialContext
	t.Cleanup(dialer.CloseAll)
	return config
}

// Client is a client as the operator has it.
func Client(t testing.TB, config *rest.Config) rest.Interface {
	t.Helper()
	client, err := kube.NewClient(config)
	if err != nil {
		t.Fatal(err)
	}
	return client
}

// Kubectl runs kubectl as the administrator and returns what it printed. The test fails when kubectl does.
func (c *Cluster) Kubectl(t testing.TB, args ...string) string {
	t.Helper()
	return c.KubectlInput(t, "", args...)
}

// KubectlInput is Kubectl with text for its standard input.
func (c *Cluster) KubectlInput(t testing.TB, input string, args ...string) string {
	t.Helper()
	out, err := c.TryKubectl(input, args...)
	if err != nil {
		t.Fatalf("kubectl %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryKubectl is KubectlInput for commands that may fail.
func (c *Cluster) TryKubectl(input string, args ...string) (string, error) {
	variables, err := kubectlVariables()
	if err != nil {
		return "", err
	}
	for {
		cmd := exec.Command(filepath.Join(test.Trimmed(), "kubectl"), args...)
		cmd.Env = slices.Concat(os.Environ(), variables, []string{"KUBECONFIG=" + c.Kubeconfig})
		cmd.Stdin = strings.NewReader(input)
		out, err := cmd.CombinedOutput()
		if err == nil || !HasNoConditions(string(out)) {
			return string(out), err
		}
	}
}

// KubectlVariables make the kubectl of hooks the first one in PATH: the trimmed one, which executes the complete one where it must. Calls
// of kubectl took a sixth of the CPU time of all tests, with this one less than half of that.
func KubectlVariables(t testing.TB) []string {
	t.Helper()
	variables, err := kubectlVariables()
	if err != nil {
		t.Fatal(err)
	}
	return variables
}

// KubectlFunction is a line for bash that lets kubectl be the trimmed one, with the PATH of the shell, but not for programs that it starts.
func KubectlFunction(t testing.TB) string {
	t.Helper()
	for _, variable := range KubectlVariables(t) {
		if strings.HasPrefix(variable, kubectl.Variable+"=") {
			return fmt.Sprintf("kubectl() { PATH=%s:$PATH %s %[1]s/kubectl \"$@\"; }\n", test.Trimmed(), variable)
		}
	}
	return "" // as on macOS
}

var kubectlVariables = sync.OnceValues(func() ([]string, error) {
	dir, err := test.TryTools()
	if err != nil {
		return nil, err
	}
	// With an error, as on macOS, the complete one alone.
	all, _ := kubectl.Environments([]string{"PATH=" + dir + ":" + os.Getenv("PATH")}, kubectl.Auto, test.Trimmed())
	return all[kubectl.Auto], nil
})

// HasNoConditions recognizes the error of kubectl wait about a CRD whose conditions are null, as they are for some milliseconds.
func HasNoConditions(output string) bool {
	return strings.Contains(output, ".status.conditions accessor error: <nil> is of the type <nil>")
}

var namespaces atomic.Int64

// UntilAllowed waits until a permission of a user is effective: the API server watches Roles, so it lags.
func (c *Cluster) UntilAllowed(t testing.TB, user, namespace, verb, resource string) {
	t.Helper()
	c.untilAnswer(t, "yes", user, namespace, verb, resource)
}

// UntilDenied waits until a user has lost a permission.
func (c *Cluster) UntilDenied(t testing.TB, user, namespace, verb, resource string) {
	t.Helper()
	c.untilAnswer(t, "no", user, namespace, verb, resource)
}

func (c *Cluster) untilAnswer(t testing.TB, want, user, namespace, verb, resource string) {
	t.Helper()
	deadline := time.Now().Add(test.Patience)
	for {
		answer, _ := c.TryKubectl("", "auth", "can-i", verb, resource, "--as="+user, "-n", namespace)
		lines := strings.Split(strings.TrimSpace(answer), "\n") // the first may be a warning about resources without a namespace
		switch {
		case strings.HasPrefix(lines[len(lines)-1], want):
			return
		case time.Now().After(deadline):
			t.Fatalf("may %s %s %s in %s? %s", user, verb, resource, namespace, answer)
		}
	}
}

// UntilRoles waits until the Roles and ClusterRoles of a manifest are effective, by their first rules.
func (c *Cluster) UntilRoles(t testing.TB, user, namespace, manifest string) {
	t.Helper()
	documents := yaml.NewYAMLOrJSONDecoder(strings.NewReader(manifest), 4096)
	for {
		var role rbacv1.Role
		err := documents.Decode(&role)
		if errors.Is(err, io.EOF) {
			return
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(role.Rules) == 0 {
			continue
		}
		rule, in := role.Rules[0], namespace
		resource := rule.Resources[0]
		if group := rule.APIGroups[0]; group != "" {
			resource += "." + group
		}
		if len(rule.ResourceNames) > 0 {
			resource += "/" + rule.ResourceNames[0]
		}
		if role.Namespace != "" {
			in = role.Namespace
		}
		c.UntilAllowed(t, user, in, rule.Verbs[0], resource)
	}
}

// Namespace creates a namespace for one test. It is deleted at the end of the test only if the cluster stays: for each one the control
// plane looks for objects of all kinds, in 0.13 s of CPU. Most tests have one, so this is a request rather than a process.
func (c *Cluster) Namespace(t testing.TB) string {
	t.Helper()
	config := c.Config(t)
	client, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("test-%d-%d", os.Getpid(), namespaces.Add(1))
	request := func(method, path, body string) {
		t.Helper()
		// The context of a test has ended when its clean-up runs.
		req, err := http.NewRequest(method, config.Host+"/api/v1/namespaces"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		req.Close = true // tests count goroutines
		res, err := client.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		if answer, err := io.ReadAll(res.Body); err != nil || res.StatusCode >= http.StatusMultipleChoices {
			t.Fatalf("%s of namespace %s: %s %v\n%s", method, name, res.Status, err, answer)
		}
	}
	request(http.MethodPost, "", `{"metadata": {"name": "`+name+`"}}`)
	if c.memory { // a controller creates it elsewhere
		request(http.MethodPost, "/"+name+"/serviceaccounts", `{"metadata": {"name": "default"}}`)
	} else if os.Getenv("TESTCLUSTER_DIR") != "" && os.Getenv("TESTCLUSTER_REMOVED") == "" {
		t.Cleanup(func() { request(http.MethodDelete, "/"+name, "") })
	}
	return name
}

// copyKubeconfig writes a kubeconfig with other words in it.
func copyKubeconfig(t testing.TB, from, to string, replacements ...string) {
	t.Helper()
	text, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, []byte(strings.NewReplacer(replacements...).Replace(string(text))), 0o600); err != nil {
		t.Fatal(err)
	}
}

// KubeconfigFor writes a kubeconfig whose context has a namespace, and returns its path.
func (c *Cluster) KubeconfigFor(t testing.TB, from, namespace string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "kubeconfig")
	copyKubeconfig(t, from, path, "    cluster: testcluster\n", "    cluster: testcluster\n    namespace: "+namespace+"\n")
	return path
}

// KubeconfigOf returns a kubeconfig with a token of a ServiceAccount. In memory it has all permissions, as every client.
func (c *Cluster) KubeconfigOf(t testing.TB, namespace, account string) string {
	t.Helper()
	if c.memory {
		return c.Kubeconfig
	}
	token := strings.TrimSpace(c.Kubectl(t, "-n", namespace, "create", "token", account))
	path := filepath.Join(t.TempDir(), "kubeconfig")
	text, err := os.ReadFile(c.Kubeconfig)
	if err == nil {
		err = os.WriteFile(path, regexp.MustCompile(`token: .*`).ReplaceAll(text, []byte("token: "+token)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}
