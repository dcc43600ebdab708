package simulate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/dev/testfile"
	"github.com/shell-operator/shell-operator/internal/run/process"
)

// callsFile is where stubs record their calls.
func (s *simulation) callsFile() string { return filepath.Join(s.Dir, "calls") }

// environment makes the directories and stubs of a simulation, and returns the environment of its hook.
func (s *simulation) environment() ([]string, error) {
	env := slices.Clone(s.Env)
	set := func(name, value string) {
		env = slices.DeleteFunc(env, func(kv string) bool { return strings.HasPrefix(kv, name+"=") })
		env = append(env, name+"="+value)
	}
	for name, dir := range map[string]string{"HOME": "home", "TMPDIR": "tmp"} {
		path := filepath.Join(s.Dir, dir)
		if err := os.MkdirAll(path, 0o700); err != nil {
			return nil, err
		}
		set(name, path)
	}
	kubeconfig := filepath.Join(s.Dir, "kubeconfig")
	if err := os.WriteFile(kubeconfig, []byte(noCluster), 0o600); err != nil {
		return nil, err
	}
	set("KUBECONFIG", kubeconfig)
	for name, value := range s.in.Env {
		set(name, value)
	}
	if len(s.in.Stubs) == 0 {
		return env, nil
	}
	dir := filepath.Join(s.Dir, "stubs")
	if err := os.MkdirAll(filepath.Join(dir, "scripts"), 0o700); err != nil {
		return nil, err
	}
	for name, stub := range s.in.Stubs {
		text, err := stubText(name, stub, filepath.Join(dir, "scripts", name), s.callsFile())
		if err != nil {
			return nil, err
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
			return nil, err
		}
	}
	set("PATH", dir+":"+process.Variable(env, "PATH"))
	return env, nil
}

// noCluster names an address that refuses connections.
const noCluster = `apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "http://127.0.0.1:1"}}]
contexts: [{name: none, context: {cluster: none}}]
current-context: none
`

// stubText is a program that records its call, and then does what the stub does. A record is the number of words, and each word, with a
// zero byte after each; one printf writes it in one piece.
func stubText(name string, stub testfile.Stub, script, calls string) (string, error) {
	text := "#!/bin/sh\nprintf '%s\\0' \"$(($# + 1))\" " + quoteShell(name) + " \"$@\" >>" + quoteShell(calls) + "\n"
	switch {
	case stub.File != "":
		if !testfile.IsExecutable(stub.File) {
			return "", fmt.Errorf("stub %s: %s is not an executable file (a text of one word is a path)", name, stub.File)
		}
		return text + "exec " + quoteShell(stub.File) + ` "$@"` + "\n", nil
	case stub.Script != "":
		if !strings.HasPrefix(stub.Script, "#!") {
			stub.Script = "#!/bin/sh\n" + stub.Script
		}
		if err := os.WriteFile(script, []byte(stub.Script), 0o700); err != nil {
			return "", err
		}
		return text + "exec " + quoteShell(script) + ` "$@"` + "\n", nil
	}
	for _, out := range []struct{ text, to string }{{stub.Stdout, ""}, {stub.Stderr, " >&2"}} {
		if out.text != "" {
			text += "printf '%s\\n' " + quoteShell(strings.TrimSuffix(out.text, "\n")) + out.to + "\n"
		}
	}
	return text + "exit " + strconv.Itoa(stub.Exit) + "\n", nil
}

func quoteShell(text string) string { return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'" }

// readCalls returns the calls of stubs in the order of their start.
func readCalls(path string) (calls [][]string, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	words := strings.Split(strings.TrimSuffix(string(text), "\x00"), "\x00")
	for len(words) > 0 {
		n, err := strconv.Atoi(words[0])
		if err != nil || n < 1 || n > len(words)-1 {
			return calls, errors.New("the calls of the stubs cannot be read: a stub was killed while it recorded one")
		}
		calls = append(calls, words[1:n+1])
		words = words[n+1:]
	}
	return calls, err
}
