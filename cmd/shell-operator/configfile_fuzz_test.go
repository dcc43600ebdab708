package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// Any file of --config-file is accepted or rejected; each error contains the file, and mostly the line.
func FuzzConfigFile(f *testing.F) {
	for _, text := range []string{
		"", "---", "# nothing", "log-level: debug", "log-level: debug\nlog-level: info", "hooks-dir: [a]", "hook-env: [A, '!B']", "hook-env: [~]",
		"no-such: 1",
		"config-file: x", "? [a]\n: b", "a: &x [*x]", "&a log-level: *a", "log-level: ~", "kube-client-qps: .nan", "kube-client-qps: 1e400",
		"hook-timeout: -5s",
		"listen-port: 0x10", "- a", "text", "a: b\n---\nc: d", "log-level: {a: b}", "\xff\xfe", "log-level: |\n  debug\n",
		"<<: {log-level: debug}", "%YAML 1.1\n---\n{}", "!!binary x: y",
		"dry-run: yes", "\"log-level\": !!str debug", "&x hooks-dir: x\n*x : y",
	} {
		f.Add(text)
	}
	path := filepath.Join(f.TempDir(), "settings.yaml")
	f.Fuzz(func(t *testing.T, text string) {
		own := fmt.Sprint(path, ".", os.Getpid())
		if err := os.WriteFile(own, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		s := newSettings(nil)
		fs := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.addFlags(fs)
		s.configFile = own
		for _, err := range s.readFile(fs, fs) {
			if !strings.HasPrefix(err.Error(), "configuration error: ") || !strings.Contains(err.Error(), own) {
				t.Errorf("%q: the error does not say where: %v", text, err)
			}
		}
	})
}
