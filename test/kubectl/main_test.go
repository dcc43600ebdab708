// Package kubectl tests that the trimmed kubectl does what the complete one does.
package kubectl

import (
	"bytes"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/shell-operator/shell-operator/internal/run/kubectl"
	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// side runs command lines with one of the two programs, in a namespace and a directory of its own.
type side struct {
	t         *testing.T
	namespace string
	dir       string
	env       []string
	// mark gets a line for each call of the complete kubectl by the trimmed one, calls those that the trimmed one records.
	mark, calls string
	recorder    *recorder
}

// result is what can be observed of a command line.
type result struct {
	stdout, stderr string
	status         int
	// requests are sorted: kubectl sends some of them concurrently.
	requests []string
	// process reports that the trimmed kubectl executed the complete one.
	process bool
	// calls are those that the trimmed kubectl has recorded.
	calls []kubectl.Calls
}

// bin is where make kubectl puts the programs.
func bin(t *testing.T, elements ...string) string {
	t.Helper()
	test.Tools(t) // builds them if necessary
	return filepath.Join(append([]string{test.Root(), "bin"}, elements...)...)
}

// newSide returns a side with the complete kubectl, or with the trimmed one in front of it.
func newSide(t *testing.T, c *testenv.Cluster, trimmed bool) *side {
	t.Helper()
	dir := t.TempDir()
	s := &side{t: t, namespace: c.Namespace(t), dir: dir, mark: filepath.Join(dir, "mark"), calls: filepath.Join(dir, "calls"),
		recorder: newRecorder(t, c.Config(t))}
	// The controllers make these at some time: both sides have them.
	for _, object := range []string{"configmap/kube-root-ca.crt", "serviceaccount/default"} { // two that are missing are an error
		c.Kubectl(t, "-n", s.namespace, "wait", "--for=create", object, "--timeout=60s")
	}
	for _, sub := range []string{"home", "work", "bin"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	s.write("kubeconfig", s.recorder.kubeconfig(s.namespace))
	// It leaves a mark and is kubectl for all that the trimmed one can see.
	complete := filepath.Join(dir, "bin", "kubectl")
	if err := os.WriteFile(complete, fmt.Appendf(nil, "#!/bin/sh\necho process >>%s\nexec %s \"$@\"\n", s.mark, bin(t, "kubectl")),
		0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Dir(complete) + ":" + test.Tools(t) + ":/usr/local/bin:/usr/bin:/bin"
	if trimmed {
		path = bin(t, "kubectl-trimmed") + ":" + path
		s.env = append(s.env, identity(t, complete), "SHELL_OPERATOR_KUBECTL_CALLS="+s.calls)
	}
	s.env = append(s.env, "PATH="+path, "HOME="+filepath.Join(dir, "home"), "KUBECONFIG="+filepath.Join(dir, "kubeconfig"), "NS="+s.namespace,
		"EDITOR=true")
	return s
}

// identity is the variable that names a file as the complete kubectl.
func identity(t *testing.T, path string) string {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("SHELL_OPERATOR_KUBECTL_FILE=%d,%d,%d,%d", stat.Dev, stat.Ino, info.Size(), info.ModTime().UnixNano())
}

func (s *side) write(name, text string) {
	s.t.Helper()
	if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// run executes a command line with bash. Variables are added to the environment.
func (s *side) run(line string, env ...string) result {
	s.t.Helper()
	if err := errors.Join(os.RemoveAll(s.mark), os.RemoveAll(s.calls)); err != nil {
		s.t.Fatal(err)
	}
	s.recorder.take()
	cmd := exec.Command("bash", "-c", line)
	cmd.Dir, cmd.Env = filepath.Join(s.dir, "work"), append(slices.Clone(s.env), env...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil && !errors.As(err, new(*exec.ExitError)) {
		s.t.Fatalf("%s: %v", line, err)
	}
	_, err := os.Stat(s.mark)
	calls, _ := os.ReadFile(s.calls) // absent without a call
	return result{s.masked(stdout.String()), s.masked(stderr.String()), cmd.ProcessState.ExitCode(), s.requests(), err == nil,
		kubectl.ParseCalls(calls)}
}

// requests returns what the API server has received since the last call of it.
func (s *side) requests() (masked []string) {
	for _, request := range s.recorder.take() {
		masked = append(masked, s.masked(request))
	}
	slices.Sort(masked)
	return masked
}

// Two runs of one kubectl differ in these.
var differing = []struct {
	expr  *regexp.Regexp
	value string
}{
	{regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`), "UID"},
	{regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)`), "TIME"},
	{regexp.MustCompile(`(resourceVersion\\?"?[:=] ?\\?"?)\d+`), "${1}VERSION"},
	{regexp.MustCompile(`resourceVersion=\d+`), "resourceVersion=VERSION"},
	{regexp.MustCompile(`(/metadata/resourceVersion","value":"|but it is |, was )\d+`), "${1}VERSION"},
	{regexp.MustCompile(`timeoutSeconds=\d+`), "timeoutSeconds=N"},
	{regexp.MustCompile(`hash=[0-9A-F]+`), "hash=HASH"},
	{regexp.MustCompile(`[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ +\d+ `), "KLOG "},
	{regexp.MustCompile(` +\b(\d+[smh]|<invalid>)+( *\n| {2,})`), " AGE$2"},
	{regexp.MustCompile(`\b10\.(\d+\.){2}\d+\b`), "IP"},
	{regexp.MustCompile(`(nodePort\\?"?: ?)\d+`), "${1}PORT"},
	{regexp.MustCompile(`eyJ[\w-]+\.[\w-]+\.[\w-]+`), "TOKEN"},
	{regexp.MustCompile(`in \d+ milliseconds`), "in N milliseconds"},
}

func (s *side) masked(text string) string {
	for _, own := range [][2]string{{s.namespace, "NAMESPACE"}, {s.dir, "DIR"}, {s.recorder.address(), "SERVER"}} {
		text = strings.ReplaceAll(text, own[0], own[1])
	}
	for _, d := range differing {
		text = d.expr.ReplaceAllString(text, d.value)
	}
	return text
}

// recorder is a proxy in front of the API server that notes each request. It has the credentials of the administrator.
type recorder struct {
	server *httptest.Server
	token  string

	mu       sync.Mutex
	requests []string
}

func newRecorder(t *testing.T, config *rest.Config) *recorder {
	t.Helper()
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	r := &recorder{token: config.BearerToken}
	proxy := httputil.NewSingleHostReverseProxy(target)
	trusted, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: trusted}
	proxy.Transport = transport
	proxy.FlushInterval = -1 // watches
	r.server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.note(req)
		proxy.ServeHTTP(w, req)
	}))
	r.server.EnableHTTP2 = true
	r.server.Config.ErrorLog = log.New(io.Discard, "", 0) // kubectl distrusts it in some lines
	r.server.StartTLS()
	t.Cleanup(func() {
		r.server.Close()
		transport.CloseIdleConnections()
	})
	return r
}

func (r *recorder) note(req *http.Request) {
	body, _ := io.ReadAll(req.Body)
	req.Body = io.NopCloser(bytes.NewReader(body))
	var headers []string
	for name, values := range req.Header {
		// One id per process, and the time of its cache.
		if name != "Kubectl-Session" && name != "If-Modified-Since" {
			headers = append(headers, name+": "+strings.Join(values, ", "))
		}
	}
	slices.Sort(headers)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.requests = append(r.requests, fmt.Sprintf("%s %s\n%s\n%s", req.Method, req.URL, strings.Join(headers, "\n"), body))
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	taken := r.requests
	r.requests = nil
	return taken
}

func (r *recorder) address() string { return strings.TrimPrefix(r.server.URL, "https://") }

func (r *recorder) kubeconfig(namespace string) string {
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: r.server.Certificate().Raw})
	return fmt.Sprintf(`apiVersion: v1
kind: Config
current-context: test
clusters: [{name: test, cluster: {server: "%s", certificate-authority-data: "%s"}}]
contexts: [{name: test, context: {cluster: test, user: test, namespace: %s}}]
users: [{name: test, user: {token: "%s"}}]
`, r.server.URL, base64.StdEncoding.EncodeToString(certificate), namespace, r.token)
}

// seed selects the lines of a short run. It is constant unless SEED sets another one.
var seed = sync.OnceValue(func() uint64 {
	if n, err := strconv.ParseUint(os.Getenv("SEED"), 10, 64); err == nil {
		return n
	}
	return 1
})

// shell runs a script with nothing but these variables and returns its status and output.
func shell(t *testing.T, script string, env ...string) (int, string) {
	t.Helper()
	cmd := exec.Command("bash", "-c", script)
	cmd.Env = env
	output, err := cmd.CombinedOutput()
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(output)
}
