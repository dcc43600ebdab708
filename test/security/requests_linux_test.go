package security

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"

	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// port is one at which the operator listens.
type port struct {
	name, address string
	secure        bool
	// path is one that is answered, and status the answer to a GET of it.
	path   string
	status int
}

// dial opens a connection, which the test closes.
func (p *port) dial(t *testing.T, protocols ...string) net.Conn {
	t.Helper()
	dialer := &net.Dialer{Timeout: time.Minute}
	conn, err := dialer.Dial("tcp", p.address)
	if err != nil {
		t.Fatalf("%s: %v", p.name, err)
	}
	if p.secure {
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, NextProtos: protocols})
	}
	if err := conn.SetDeadline(time.Now().Add(60 * time.Second)); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// ports starts an operator that listens wherever it can.
func ports(t *testing.T) (*testenv.Operator, []*port) {
	t.Helper()
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: testenv.Hooks(t, map[string]string{
			"review.sh": testenv.Testdata(t, "validating.sh", "NAMESPACE", ns),
			"serve.sh":  serving + "echo \"asked $(jq -c '.[0].request | [.method, .path]' $BINDING_CONTEXT_PATH)\"\n",
		}),
		Kubeconfig: cluster.Kubeconfig, Args: []string{"--validating-webhook-configuration-name", ns, "--debug-http-addr", "127.0.0.1:0"},
	})
	pages := op.UntilLog("base http server started")
	served := op.UntilLog("HTTP hooks are served")
	debug := ""
	for _, r := range op.Records() {
		if r.Has("Debug endpoint listen on address") && strings.HasPrefix(r.Fields["address"], "127.0.0.1:") {
			debug = r.Fields["address"]
		}
	}
	op.UntilLog("Webhooks are registered")
	review, err := url.Parse(strings.TrimSpace(cluster.Kubectl(t, "get", "validatingwebhookconfiguration", ns+"-hooks", "-o",
		"jsonpath={.webhooks[0].clientConfig.url}")))
	if err != nil {
		t.Fatal(err)
	}
	return op, []*port{
		{name: "pages", address: "127.0.0.1:" + pages.Fields["port"], path: "/healthz", status: 200},
		{name: "webhooks", address: review.Host, secure: true, path: review.Path, status: 405},
		{name: "HTTP hooks", address: served.Fields["address"], path: "/soup", status: 204},
		{name: "debug", address: debug, path: "/hook/list", status: 200},
	}
}

var statusLine = regexp.MustCompile(`(?m)^HTTP/1\.[01] (\d{3})`)

// ask sends bytes as they are, says that nothing more comes, and returns the statuses of all answers.
func ask(t *testing.T, p *port, request string) (statuses []int, all string) {
	t.Helper()
	conn := p.dial(t, "http/1.1")
	var sending sync.WaitGroup
	sending.Go(func() { _, _ = io.Copy(conn, strings.NewReader(request)) }) // the server may close the connection
	// Some connections are kept alive. More data would be a response without a request.
	var text []byte
	block := make([]byte, 64<<10)
	for patience := time.Minute; ; patience = 300 * time.Millisecond {
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		n, err := conn.Read(block)
		text = append(text, block[:n]...)
		if err != nil {
			break
		}
	}
	_ = conn.Close()
	sending.Wait()
	for _, found := range statusLine.FindAllSubmatch(text, -1) {
		status, _ := strconv.Atoi(string(found[1]))
		statuses = append(statuses, status)
	}
	return statuses, string(text)
}

// Line "odd requests": what two servers in a row might understand differently is refused and ends the connection; what
// asks for more than it may costs neither memory nor time. Nothing of it reaches a hook.
func TestOddRequests(t *testing.T) {
	op, all := ports(t)
	for line := range strings.Lines(testenv.Testdata(t, "requests.txt")) {
		fields := strings.SplitN(strings.TrimSuffix(line, "\n"), " | ", 3)
		if strings.HasPrefix(line, "#") {
			continue
		}
		t.Run(fields[1], func(t *testing.T) {
			text, err := strconv.Unquote(`"` + fields[2] + `"`)
			if err != nil {
				t.Fatal(err)
			}
			text = repeated.ReplaceAllStringFunc(text, repeat)
			for _, p := range all {
				request := strings.NewReplacer("PATH", p.path, "HOST", p.address).Replace(text)
				statuses, text := ask(t, p, request)
				want := strings.Fields(strings.Replace(fields[0], "usual", strconv.Itoa(p.status), 1))
				if len(statuses) == 0 {
					statuses = []int{0}
				}
				if len(statuses) > 1 || !slices.Contains(want, strconv.Itoa(statuses[0])) {
					t.Errorf("%s: answers %v, want one of %v: %.300q", p.name, statuses, want, text)
				}
				if strings.Contains(text, "secret") || strings.Contains(text, "root:") {
					t.Errorf("%s: the answer says too much: %.300q", p.name, text)
				}
			}
		})
	}
	t.Run("names that lead here", func(t *testing.T) { foreignNames(t, all) })
	t.Run("pages of others", func(t *testing.T) { foreignPages(t, all) })
	t.Run("slow senders", func(t *testing.T) { slowSenders(t, all) })
	t.Run("streams that are reset immediately", func(t *testing.T) { rapidReset(t, op, all[1]) })
	t.Run("headers without end", func(t *testing.T) { headersWithoutEnd(t, op, all[1]) })
	for _, p := range all { // and everything is as before
		if statuses, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: "+p.address+"\r\nConnection: close\r\n\r\n"); !slices.Equal(statuses,
			[]int{p.status}) {
			t.Errorf("%s: afterwards %v: %.300q", p.name, statuses, text)
		}
	}
	for _, r := range op.Records() {
		if r.Has("Execute hook", "hook", "review.sh") ||
			strings.HasPrefix(r.Fields["msg"], "asked ") && r.Fields["msg"] != `asked ["GET","/soup"]` {
			t.Errorf("a hook was run: %s", r.Text)
		}
		if len(r.Text) > 128<<10 {
			t.Errorf("a record of %d bytes: %.200s", len(r.Text), r.Text)
		}
	}
	if peak := memory(t, op.Pid(), "VmHWM"); peak > 600 {
		t.Errorf("the operator took %d MiB", peak)
	}
}

var repeated = regexp.MustCompile(`(x|HEADERS)\*(\d+)`)

// repeat returns the text that x*N or HEADERS*N stands for.
func repeat(short string) string {
	what, number, _ := strings.Cut(short, "*")
	n, _ := strconv.Atoi(number) // digits
	if what == "x" {
		return strings.Repeat(what, n)
	}
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, "X-%d: y\r\n", i)
	}
	return b.String()
}

// foreignNames sends requests with a foreign host name, as in DNS rebinding, to the ports for programs on this machine.
func foreignNames(t *testing.T, all []*port) {
	for _, p := range all[2:] {
		for _, host := range []string{"evil.example.com", "evil.example.com:80", "localhost.evil.example.com", "127.0.0.1.evil.example.com",
			"127.1", "0x7f000001", "2130706433", ""} {
			if statuses, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); !slices.Equal(statuses,
				[]int{403}) {
				t.Errorf("%s as %q: %v: %.300q", p.name, host, statuses, text)
			}
		}
		for _, host := range []string{"localhost", "127.0.0.1", "127.0.0.1:1", "[::1]:80", "LOCALHOST:9"} {
			if statuses, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: "+host+"\r\nConnection: close\r\n\r\n"); !slices.Equal(statuses,
				[]int{p.status}) {
				t.Errorf("%s as %q: %v: %.300q", p.name, host, statuses, text)
			}
		}
	}
}

// foreignPages sends requests as a browser does for a page of another site.
func foreignPages(t *testing.T, all []*port) {
	for _, p := range all[2:] {
		for _, header := range []string{"Origin: http://evil.example.com", "Origin: null", "Sec-Fetch-Site: cross-site",
			"Sec-Fetch-Site: same-site"} {
			if statuses, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: localhost\r\n"+header+"\r\nConnection: close\r\n\r\n"); !slices.Equal(
				statuses, []int{403}) {
				t.Errorf("%s with %s: %v: %.300q", p.name, header, statuses, text)
			}
		}
	}
	for _, p := range all {
		_, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: "+p.address+"\r\nOrigin: http://evil.example.com\r\nConnection: close\r\n\r\n")
		if strings.Contains(strings.ToLower(text), "access-control-") {
			t.Errorf("%s: pages of others may read the answer: %.300q", p.name, text)
		}
	}
}

// slowSenders opens many connections to each port that send a header byte by byte, or nothing of a body: others are
// answered meanwhile, and each connection ends by itself.
func slowSenders(t *testing.T, all []*port) {
	for _, p := range all {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			slowSendersTo(t, p)
		})
	}
}

func slowSendersTo(t *testing.T, p *port) {
	answer := func(when string) {
		if statuses, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: "+p.address+"\r\nConnection: close\r\n\r\n"); !slices.Equal(statuses,
			[]int{p.status}) {
			t.Errorf("%s %v: %.300q", when, statuses, text)
		}
	}
	answer("before")
	var slow []net.Conn
	for i := range 100 {
		conn := p.dial(t, "http/1.1")
		begin := "GET " + p.path + " HTTP/1.1\r\nHost: " + p.address + "\r\nX-"
		if i%2 == 0 {
			begin = "POST " + p.path + " HTTP/1.1\r\nHost: " + p.address + "\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"
		}
		if _, err := conn.Write([]byte(begin)); err != nil {
			t.Fatal(err)
		}
		slow = append(slow, conn)
	}
	answer("meanwhile")
	// Those in the middle of a header are hung up on; the deadline of the connection says when at last.
	if _, err := io.Copy(io.Discard, slow[1]); errors.Is(err, os.ErrDeadlineExceeded) {
		t.Error("a header may take for ever")
	}
}

// speakHTTP2 begins a connection of HTTP/2.
func speakHTTP2(t *testing.T, p *port) (net.Conn, *http2.Framer) {
	t.Helper()
	conn := p.dial(t, "h2")
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, bufio.NewReader(conn))
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	return conn, framer
}

func headersOf(p *port) []byte {
	var block bytes.Buffer
	encoder := hpack.NewEncoder(&block)
	for _, f := range [][2]string{{":method", "POST"}, {":scheme", "https"}, {":authority", p.address}, {":path", p.path},
		{"content-type", "application/json"}} {
		_ = encoder.WriteField(hpack.HeaderField{Name: f[0], Value: f[1]})
	}
	return block.Bytes()
}

// rapidReset opens streams and resets each immediately.
func rapidReset(t *testing.T, op *testenv.Operator, p *port) {
	before := memory(t, op.Pid(), "VmRSS")
	conn, framer := speakHTTP2(t, p)
	go func() { _, _ = io.Copy(io.Discard, conn) }() // its answers are not read by frames
	block := headersOf(p)
	for i := range uint32(20_000) {
		id := 2*i + 1
		err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: id, BlockFragment: block, EndHeaders: true})
		if err == nil {
			err = framer.WriteRSTStream(id, http2.ErrCodeCancel)
		}
		if err != nil {
			break // the server has had enough
		}
	}
	if statuses, text := ask(t, p, "GET "+p.path+" HTTP/1.1\r\nHost: "+p.address+"\r\nConnection: close\r\n\r\n"); !slices.Equal(statuses,
		[]int{p.status}) {
		t.Errorf("meanwhile %v: %.300q", statuses, text)
	}
	if grown := memory(t, op.Pid(), "VmRSS") - before; grown > 200 {
		t.Errorf("the operator has grown by %d MiB", grown)
	}
}

// headersWithoutEnd sends a header in frames that go on and on.
func headersWithoutEnd(t *testing.T, op *testenv.Operator, p *port) {
	before := memory(t, op.Pid(), "VmRSS")
	conn, framer := speakHTTP2(t, p)
	go func() { _, _ = io.Copy(io.Discard, conn) }()
	err := framer.WriteHeaders(http2.HeadersFrameParam{StreamID: 1, BlockFragment: headersOf(p)})
	var more bytes.Buffer
	encoder := hpack.NewEncoder(&more)
	_ = encoder.WriteField(hpack.HeaderField{Name: "x-more", Value: strings.Repeat("y", 8<<10), Sensitive: true})
	sent := 0
	for ; err == nil && sent < 256<<20; sent += more.Len() {
		err = framer.WriteContinuation(1, false, more.Bytes())
	}
	if err == nil {
		t.Errorf("the server has taken %d MiB of headers", sent>>20)
	}
	if grown := memory(t, op.Pid(), "VmRSS") - before; grown > 100 {
		t.Errorf("the operator has grown by %d MiB", grown)
	}
}

// memory returns what a process has, in MiB.
func memory(t *testing.T, pid int, field string) int {
	t.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(field + `:\s+(\d+) kB`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("no %s", field)
	}
	n, _ := strconv.Atoi(string(found[1]))
	return n >> 10
}
