package debug

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/debug/history"
)

// folder is one with a short name.
func folder(t *testing.T) string {
	dir, err := os.MkdirTemp("", "d-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// serve runs a server until the test, or the returned function, ends it.
func serve(t *testing.T, o ServerOptions) (*Server, func()) {
	t.Helper()
	s, err := Listen(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { s.Run(ctx); close(ended) }()
	end := func() { cancel(); <-ended }
	t.Cleanup(end)
	return s, end
}

func get(t *testing.T, c *Client, path string) (string, error) {
	t.Helper()
	body, err := c.Get(t.Context(), path)
	if err != nil {
		return "", err
	}
	defer body.Close()
	text, err := io.ReadAll(body)
	return string(text), err
}

func TestSocket(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	dir := filepath.Join(folder(t), "own")
	place := Place{Socket: filepath.Join(dir, "debug.socket"), Chosen: true}
	api := operate(theOperator()).api()
	_, end := serve(t, ServerOptions{API: api, Place: place, Log: logger})
	for path, mode := range map[string]os.FileMode{dir: 0o700, place.Socket: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v %v", path, info.Mode(), err)
		}
	}
	client := NewClient(place, 10*time.Second)
	if text, err := get(t, client, "/"); err != nil || text != "debug endpoint is alive\n" {
		t.Errorf("got %q %v", text, err)
	}
	if !strings.Contains(log.String(), `msg="Debug endpoint listen on address" address=`+place.Socket) {
		t.Errorf("the log: %s", log.String())
	}
	// Another operator does not take it.
	_, err := Listen(ServerOptions{API: api, Place: place, Log: logger})
	if !errors.Is(err, errBusy) || !strings.Contains(err.Error(), "give each operator a --debug-unix-socket of its own") {
		t.Errorf("the second one: %v", err)
	}
	end()
	if _, err := os.Stat(place.Socket); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("after the end: %v", err)
	}
}

// stale makes a socket without a listener.
func stale(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	l.Close()
}

func TestStaleSocketIsReplaced(t *testing.T) {
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	stale(t, place.Socket)
	client := NewClient(place, 10*time.Second)
	if _, err := get(t, client, "/"); err == nil || !strings.Contains(err.Error(), "its operator has ended") {
		t.Errorf("before: %v", err)
	}
	serve(t, ServerOptions{API: operate(theOperator()).api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	if _, err := get(t, client, "/"); err != nil {
		t.Error(err)
	}
}

func TestWhereTheSocketIs(t *testing.T) {
	for _, test := range []struct {
		name   string
		chosen bool
		// prepare gets the folder of the default socket and the runtime folder, which is not there yet.
		prepare func(t *testing.T, dir, runtime string)
		at      string // "default", "runtime", "none" or the beginning of an error
		warns   string
	}{
		{"the default", false, nil, "default", ""},
		{"nothing may be made there", false, func(t *testing.T, dir, _ string) { block(t, dir) }, "runtime", ""},
		{"what was chosen may not be made", true, func(t *testing.T, dir, _ string) { block(t, dir) }, "cannot take the debug socket", ""},
		{"there is something else", false, func(t *testing.T, dir, _ string) { write(t, filepath.Join(dir, "debug.socket")) }, "runtime", ""},
		{"what was chosen is something else", true, func(t *testing.T, dir, _ string) { write(t, filepath.Join(dir, "debug.socket")) },
			"cannot take the debug socket", ""},
		{"another operator has it", false, func(t *testing.T, dir, _ string) { occupy(t, filepath.Join(dir, "debug.socket")) }, "runtime",
			"Another operator listens on the debug socket"},
		{"others have both", false, func(t *testing.T, dir, runtime string) {
			occupy(t, filepath.Join(dir, "debug.socket"))
			if err := makePrivate(runtime); err != nil {
				t.Fatal(err)
			}
			occupy(t, filepath.Join(runtime, "debug.socket"))
		}, "none", "name one with --debug-unix-socket"},
		{"the runtime folder is open to others", false, func(t *testing.T, dir, runtime string) {
			block(t, dir)
			if err := errors.Join(os.Mkdir(runtime, 0o700), os.Chmod(runtime, 0o755)); err != nil {
				t.Fatal(err)
			}
		}, "none", "can be entered by others"},
		{"the runtime folder is a link", false, func(t *testing.T, dir, runtime string) {
			block(t, dir)
			if err := os.Symlink(t.TempDir(), runtime); err != nil {
				t.Fatal(err)
			}
		}, "none", "is not a directory"},
		{"the runtime folder belongs to another user", false, func(t *testing.T, dir, runtime string) {
			block(t, dir)
			if err := os.Mkdir(runtime, 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.Chown(runtime, 12345, -1); err != nil {
				t.Skip("only root can give a folder away")
			}
		}, "none", "belongs to another user"},
	} {
		t.Run(test.name, func(t *testing.T) {
			root := folder(t)
			dir, runtime := filepath.Join(root, "run"), filepath.Join(root, "private")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			if test.prepare != nil {
				test.prepare(t, dir, runtime)
			}
			var log bytes.Buffer
			place := Place{Socket: filepath.Join(dir, "debug.socket"), Chosen: test.chosen, Runtime: runtime}
			l, err := place.listen(slog.New(slog.NewTextHandler(&log, nil)))
			at := "none"
			switch {
			case err != nil:
				at = err.Error()
			case l != nil:
				defer l.Close()
				at = map[string]string{place.Socket: "default", filepath.Join(runtime, "debug.socket"): "runtime"}[l.Addr().String()]
			}
			if !strings.HasPrefix(at, test.at) {
				t.Errorf("it is at %s (%v)", at, l)
			}
			if (test.warns != "") != strings.Contains(log.String(), "WARN") || !strings.Contains(log.String(), test.warns) {
				t.Errorf("the log: %s", log.String())
			}
		})
	}
}

// block puts a file where a folder should be: root may write everywhere else.
func block(t *testing.T, dir string) {
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	write(t, dir)
}

func write(t *testing.T, path string) {
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
}

func occupy(t *testing.T, path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
}

func TestClientsLookInTheRuntimeFolder(t *testing.T) {
	root := folder(t)
	place := Place{Socket: filepath.Join(root, "run", "debug.socket"), Runtime: filepath.Join(root, "private")}
	client := NewClient(place, 10*time.Second)
	_, err := get(t, client, "/")
	if err == nil || !strings.Contains(err.Error(), "no operator is listening: there is no socket at "+place.Socket+" or "+
		filepath.Join(place.Runtime, "debug.socket")) {
		t.Errorf("without an operator: %v", err)
	}
	write(t, filepath.Join(root, "run"))
	serve(t, ServerOptions{API: operate(theOperator()).api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	if _, err := get(t, client, "/"); err != nil {
		t.Error(err)
	}
	// Another user could have created a directory that is open to all.
	if err := os.Chmod(place.Runtime, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := get(t, client, "/"); err == nil || !strings.Contains(err.Error(), "can be entered by others") {
		t.Errorf("an open folder: %v", err)
	}
}

func TestPathIsTooLong(t *testing.T) {
	_, err := Listen(ServerOptions{Place: Place{Socket: "/tmp/" + strings.Repeat("x", 120), Chosen: true}, Log: slog.New(slog.DiscardHandler)})
	if err == nil || !strings.Contains(err.Error(), "the path has 125 bytes, sockets can have 103") {
		t.Errorf("got %v", err)
	}
}

func TestBusyOperator(t *testing.T) {
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	occupy(t, place.Socket) // it takes connections and says nothing
	_, err := get(t, NewClient(place, 50*time.Millisecond), "/")
	var p *Problem
	if !errors.As(err, &p) || !strings.HasPrefix(p.Error(), "the operator does not answer on the debug socket") ||
		!strings.Contains(p.Hint(), "--timeout") {
		t.Errorf("got %v", err)
	}
}

func TestTCP(t *testing.T) {
	var log bytes.Buffer
	s, _ := serve(t, ServerOptions{
		API: operate(theOperator()).api(), Place: Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true},
		TCP: ":0", Log: slog.New(slog.NewTextHandler(&log, nil)),
	})
	address := s.served[1].listener.Addr().(*net.TCPAddr)
	if !address.IP.IsLoopback() || strings.Contains(log.String(), "WARN") {
		t.Errorf("it listens at %s, the log: %s", address, log.String())
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for _, test := range []struct {
		name, header, value string
		status              int
	}{
		{"a program", "", "", 200},
		{"by name", "Host", "localhost", 200},
		{"by a name that leads here", "Host", "evil.example:1234", 403},
		{"a web page", "Origin", "https://evil.example", 403},
		{"a link of a web page", "Sec-Fetch-Site", "cross-site", 403},
		{"typed into a browser", "Sec-Fetch-Site", "none", 200},
	} {
		t.Run(test.name, func(t *testing.T) {
			req, err := http.NewRequestWithContext(t.Context(), "GET", "http://"+address.String()+"/queue/list", nil)
			if err != nil {
				t.Fatal(err)
			}
			if test.header == "Host" {
				req.Host = test.value
			} else if test.header != "" {
				req.Header.Set(test.header, test.value)
			}
			res, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			res.Body.Close()
			if res.StatusCode != test.status {
				t.Errorf("status %d", res.StatusCode)
			}
		})
	}
}

func TestWrongTCPAddressGivesTheSocketBack(t *testing.T) {
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	for _, address := range []string{"nonsense", "127.0.0.1:99999"} {
		_, err := Listen(ServerOptions{API: operate(theOperator()).api(), Place: place, TCP: address, Log: slog.New(slog.DiscardHandler)})
		if err == nil || !strings.Contains(err.Error(), "--debug-http-addr") {
			t.Errorf("%s: %v", address, err)
		}
		if _, err := os.Stat(place.Socket); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("%s: the socket is still there: %v", address, err)
		}
	}
}

func TestTail(t *testing.T) {
	o := operate(theOperator())
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	_, end := serve(t, ServerOptions{API: o.api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	client := NewClient(place, time.Minute)
	follow := func(path string) (*bufio.Scanner, io.Closer) {
		body, err := client.Get(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { body.Close() })
		return bufio.NewScanner(body), body
	}
	all, _ := follow("/tail")
	asJSON, _ := follow("/tail.json")
	asYAML, _ := follow("/tail.yaml")
	one, hangUp := follow("/tail?hook=big.py")
	record(o.history, "1", "tidy.sh", history.Succeeded, "swept")
	record(o.history, "2", "big.py", history.Failed, "boom")
	expect := func(s *bufio.Scanner, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if !s.Scan() || !strings.Contains(s.Text(), part) {
				t.Errorf("got %q, want %q", s.Text(), part)
			}
		}
	}
	expect(all, " tidy.sh 1-1 began: Added a/x (cms) and 2 more", " tidy.sh 1-1 | swept",
		" tidy.sh 1-1 ended: succeeded after 1.5s: exit status 0",
		" big.py 2-1 began: ", " big.py 2-1 | boom", " big.py 2-1 ended: failed after 1.5s: exit status 1")
	expect(asJSON, `"kind":"began"`, `"text":"swept"`)
	expect(asYAML, "---", "hook: tidy.sh", "kind: began", "run: 1-1", "text: Added a/x (cms) and 2 more", "time: ", "---")
	expect(one, "big.py 2-1 began", "big.py 2-1 | boom")
	hangUp.Close()
	record(o.history, "3", "big.py", history.Succeeded, "after one has hung up")
	expect(all, "3-1 began", "after one has hung up", "3-1 ended")
	end() // the operator ends, and with it everybody who follows
	if all.Scan() {
		t.Errorf("after the end: %q", all.Text())
	}
	if _, err := client.Get(t.Context(), "/tail?hook=nope"); err == nil {
		t.Error("a tail without a hook")
	}
}

// A client that reads nothing holds up no run.
func TestTailOfASlowClient(t *testing.T) {
	o := operate(theOperator())
	place := Place{Socket: filepath.Join(folder(t), "debug.socket"), Chosen: true}
	serve(t, ServerOptions{API: o.api(), Place: place, Log: slog.New(slog.DiscardHandler)})
	body, err := NewClient(place, time.Minute).Get(t.Context(), "/tail")
	if err != nil {
		t.Fatal(err)
	}
	defer body.Close()
	r := o.history.Begin(history.Run{Task: "1", Hook: "big.py", Attempt: 1})
	line := []byte(strings.Repeat("x", 10_000))
	for range 2000 {
		r.Output(line)
	}
	r.End(history.Outcome{Status: history.Succeeded})
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if strings.Contains(lines.Text(), "lost: they came faster than they were read") {
			return
		}
	}
	t.Errorf("nothing was lost: %v", lines.Err())
}
