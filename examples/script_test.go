package examples

import (
	"bufio"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// variant is how the scripts run.
type variant struct {
	// killed: a script may let programs kill runs half-way. The cluster has to reach the same state.
	killed bool
	// generated: with exactly the Roles that rbac --from-tests prints.
	generated bool
}

// generated are the examples with generated Roles: not those whose hooks call kubectl, nor agent-rbac, because who writes a ClusterRole
// needs what that grants. make test-cluster runs the first two.
var generated = []string{
	"monitor-pods", "web-app", "agent-injector", "config-checksum", "convert-crontab", "secret-copier", "validate-image",
	"addons", "external-orders", "node-ping",
}

// TestExamples runs the scripts in testdata: the operator has the permissions of the example, and no others. What stands before the first
// dot of a name is the example.
func TestExamples(t *testing.T) {
	t.Parallel()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	withRoles := generated[:2]
	if test.Long() {
		withRoles = generated
	}
	var files []string
	for _, name := range withRoles {
		files = append(files, filepath.Join("testdata", name+".txtar"))
	}
	if test.InMemory() { // a program that kills hides the trimmed kubectl
		runScripts(t, all, variant{})
		return
	}
	// One after the other: ClusterRoleBindings of examples have one subject.
	t.Run("killed", func(t *testing.T) { runScripts(t, all, variant{killed: true}) })
	// With the trimmed kubectl. In make test-cluster the README has it, which test/tutorial follows.
	if test.Long() {
		t.Run("undisturbed", func(t *testing.T) { runScripts(t, all, variant{}) })
	}
	t.Run("generated", func(t *testing.T) { runScripts(t, files, variant{generated: true}) })
}

type exampleKey struct{}

func runScripts(t *testing.T, files []string, v variant) {
	scripts.Run(t, scripts.Options{
		Files: files,
		Cluster: func(t testing.TB, script string) *testenv.Cluster {
			switch script {
			case "agent-rbac": // Pods of other tests have the same annotation
				return testenv.EitherOwn(t)
			case "addons":
				return clusterWithFlux(t)
			}
			return testenv.Either(t)
		},
		Setup: func(w *scripts.World, env *testscript.Env) error {
			name, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(env.WorkDir), "script-"), ".")
			e := &example{t: w.T, cluster: w.Cluster, name: name, namespace: w.Namespace}
			env.Values[exampleKey{}] = e
			if name == "mysql-database" {
				e.mysql = test.NewMysqlServer(w.T, "pa$$ word'\"")
				env.Vars = append(env.Vars, e.mysql.Env()...)
				e.env = append(e.env, e.mysql.Env()...)
			}
			env.Setenv("EXAMPLE", filepath.Join(test.Root(), "examples", name))
			env.Setenv("PROGRAMS", test.Tools(w.T)+":"+os.Getenv("PATH"))
			e.cleanUp()
			if v.generated {
				e.installGenerated()
			} else {
				e.install()
			}
			return nil
		},
		Condition: func(name string) (bool, error) { return name == "killed" && v.killed, nil },
		Commands: map[string]scripts.Command{
			"start": startCommand, "pod": podCommand, "end": endCommand, "restart": restartCommand, "until": untilCommand, "kills": killsCommand,
			"failures": failuresCommand, "mysql": mysqlCommand, "serve": serveCommand,
		},
	})
}

// cleanUp removes what would stay, or let the API server retry for ever, when the operator has ended.
func (e *example) cleanUp() {
	switch e.name {
	case "mysql-database":
		e.t.Cleanup(func() {
			for object := range strings.FieldsSeq(e.kubectl("get", "mysqldatabases", "-o", "name")) {
				e.kubectl("patch", object, "--type=merge", "-p", `{"metadata":{"finalizers":null}}`)
			}
		})
	case "node-ping":
		e.t.Cleanup(func() {
			for _, name := range []string{"good", "fair", "poor", "dead", "away", "new"} {
				e.kubectl("delete", "node", e.namespace+"-"+name, "--ignore-not-found", "--wait=false")
			}
		})
	case "cluster-api":
		e.t.Cleanup(func() {
			e.kubectl("delete", "clusterrolebinding", e.namespace+"-reader", e.namespace+"-writer", "--ignore-not-found")
		})
	case "convert-crontab":
		e.t.Cleanup(func() {
			e.kubectl("patch", "crd", "crontabs.example.com", "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
			e.kubectl("delete", "crd", "crontabs.example.com", "--timeout=60s")
		})
	}
}

func of(ts *testscript.TestScript) *example { return ts.Value(exampleKey{}).(*example) }

// start [NAME=VALUE…]: start the operator as the ServiceAccount of the example. Its own pages are at $PAGES.
func startCommand(w *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	e := of(ts)
	e.start(args...)
	w.Operator = e.operator
	ts.Setenv("PAGES", e.operator.Address())
}

// pod PROGRAM [ARGUMENT…]: start the operator by a program, with the environment of a Pod of the example's ServiceAccount: the files
// in the directory account, two variables, and no kubeconfig. Clients at $ADDRESS trust the file tls.crt.
func podCommand(w *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	e := of(ts)
	if out, err := exec.Command("unshare", "-rm", "true").CombinedOutput(); err != nil {
		e.t.Skipf("no files can be put where a Pod has them: unshare -rm: %v %s", err, out)
	}
	certificate := test.NewCertificate(e.t)
	ts.Check(os.Mkdir(ts.MkAbs("account"), 0o700))
	for name, text := range map[string]string{
		"account/namespace": e.namespace,
		"account/token":     strings.TrimSpace(e.kubectl("create", "token", e.name)),
		"account/ca.crt": e.kubectl("config", "view", "--raw", "--minify", "--flatten", "-o",
			`go-template={{index (index .clusters 0).cluster "certificate-authority-data" | base64decode}}`),
		"tls.crt": string(certificate.CertPEM), "tls.key": string(certificate.KeyPEM),
	} {
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
	server := e.kubectl("config", "view", "--raw", "--minify", "-o", "jsonpath={.clusters[0].cluster.server}")
	host, port, err := net.SplitHostPort(strings.TrimPrefix(server, "https://"))
	ts.Check(err)
	e.operator = testenv.Start(e.t, testenv.OperatorOptions{
		Binary: ts.MkAbs(args[0]), HooksDir: filepath.Join(e.name, "hooks"),
		Args: append(args[1:], "--http-server-cert", ts.MkAbs("tls.crt"), "--http-server-key", ts.MkAbs("tls.key")),
		Env: []string{"PROGRAM=" + testenv.Binary(e.t), "KUBECONFIG=", "HOME=" + ts.MkAbs("."),
			"KUBERNETES_SERVICE_HOST=" + host, "KUBERNETES_SERVICE_PORT=" + port},
	})
	ts.Setenv("ADDRESS", e.operator.UntilLog("HTTP hooks are served").Fields["address"])
	w.Operator = e.operator
}

// end: end the operator.
func endCommand(_ *scripts.World, ts *testscript.TestScript, _ bool, _ []string) { of(ts).stop() }

// restart [NAME=VALUE…]: end the operator, and start another one.
func restartCommand(w *scripts.World, ts *testscript.TestScript, neg bool, args []string) {
	of(ts).stop()
	startCommand(w, ts, neg, args)
}

// until TEXT PROGRAM ARGUMENT…: run a program after each run of a hook, until it prints the text.
func untilCommand(_ *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	of(ts).until(args[0], func() bool {
		err := ts.Exec(args[1], args[2:]...)
		return err == nil && strings.TrimSpace(ts.ReadFile("stdout")) == args[0]
	})
}

// kills PROGRAM…: each of the programs kills one run half-way, of the operators that are started after that.
func killsCommand(_ *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	of(ts).killed(args...)
}

// failures N: that many runs have failed.
func failuresCommand(_ *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	if got := of(ts).failures(); got != want {
		ts.Fatalf("%d runs have failed, not %d", got, want)
	}
}

// mysql start|stop: start or stop the server.
func mysqlCommand(_ *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	if args[0] == "stop" {
		of(ts).mysql.Stop()
		return
	}
	of(ts).mysql.Start()
}

// serve NAME PROGRAM [ARGUMENT…]: start a server, and set a variable to the address that it prints.
func serveCommand(_ *scripts.World, ts *testscript.TestScript, _ bool, args []string) {
	server := exec.Command(args[1], args[2:]...)
	server.Dir = ts.MkAbs(".")
	out, err := server.StdoutPipe()
	ts.Check(err)
	ts.Check(server.Start())
	ts.Defer(func() { _ = server.Process.Kill(); _ = server.Wait() })
	address, err := bufio.NewReader(out).ReadString('\n')
	ts.Check(err)
	ts.Setenv(args[0], strings.TrimSpace(address))
}
