package security

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"golang.org/x/tools/txtar"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

var encodedRuns = regexp.MustCompile(`[A-Za-z0-9+/]{8,}`)

// Line "recordings": values of Secrets and of requests are in no recording, whichever way they take, and in nothing that is made of one.
func TestRecordings(t *testing.T) {
	cluster := testenv.Shared(t)
	ns := cluster.Namespace(t)
	long := marker + strings.Repeat("-0123456789abcdef", 40)
	cluster.KubectlInput(t, fmt.Sprintf(`{apiVersion: v1, kind: Secret, metadata: {name: words, namespace: %[1]s},
    stringData: {word: '%[2]s "<word>"', lines: "%[2]s line one\n%[2]s \"line\" two\n", long: %[3]s}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: copy, namespace: %[1]s}}`, ns, marker, long), "apply", "-f", "-")
	files := map[string]string{}
	for _, f := range txtar.Parse([]byte(testenv.Testdata(t, "recorded.txtar", "NAMESPACE", ns))).Files {
		config, script, _ := strings.Cut(string(f.Data), "---\n")
		files[f.Name] = "#!/bin/sh\nif [ \"$1\" = --config ]; then cat <<'YAML'\n" + config + "YAML\nexit; fi\n" + script
	}
	dir, tmp := testenv.Hooks(t, files), filepath.Join(t.TempDir(), "tmp")
	op := testenv.Start(t, testenv.OperatorOptions{
		HooksDir: dir, Kubeconfig: cluster.Kubeconfig, TmpDir: tmp, Env: []string{"PASSWORD=" + marker},
		Args: []string{"--retry-min-delay", "1h", "--retry-max-delay", "1h", "--validating-webhook-configuration-name", ns},
	})
	op.UntilLog("Hook failed. Will retry after delay.", "hook", "operations.sh")
	op.UntilLog("Webhooks are registered")
	ask := func(line ...string) (string, error) {
		cmd := op.Command(line...)
		cmd.Env = append(cmd.Env, "PATH="+test.Tools(t)+":"+os.Getenv("PATH"))
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	// one after the other: one recording is written at a time
	for _, name := range []string{"filtered.sh", "invalid.sh", "objects.sh", "unsent.sh"} {
		if out, err := ask("queue", "skip", "main"); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		op.UntilLog("Hook failed. Will retry after delay.", "hook", name)
	}
	// The API server applies the registration a moment later: the first review is the only one.
	for late := time.Now().Add(test.Patience); ; {
		out := cluster.Kubectl(t, "-n", ns, "patch", "secret", "words", "--patch",
			`{"stringData": {"word": "`+marker+`-new"}, "metadata": {"annotations": {"at": "`+time.Now().String()+`"}}}`)
		if strings.Contains(out, "Hook failed") {
			break
		}
		if time.Now().After(late) {
			t.Fatalf("there is no review: %s", out)
		}
	}
	op.UntilLog("Hook failed", "hook", "review.sh")
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+op.UntilLog("HTTP hooks are served").Fields["address"]+
		"/things/7?token="+marker+"-in-the-query&also="+marker,
		strings.NewReader(`{"password": "`+marker+`-in-the-body"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Key", marker+"-in-a-header")
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil || response.Body.Close() != nil {
		t.Fatal(err)
	}
	op.UntilLog("Hook failed", "hook", "http.sh")

	outputs := map[string]string{}
	list, err := ask("runs", "--failed", "-o", "json")
	var runs []struct{ ID, Hook string }
	if err != nil || json.Unmarshal([]byte(list), &runs) != nil {
		t.Fatalf("%v: %s", err, list)
	}
	replays := map[string]string{}
	for _, run := range runs { // the latest first
		if replays[run.Hook] != "" {
			continue
		}
		saved := filepath.Join(t.TempDir(), "run.json")
		for _, line := range [][]string{{"runs", "save", run.ID, "-"}, {"runs", "save", run.ID, saved}, {"runs", "context", run.ID}} {
			out, err := ask(line...)
			if isContext := line[1] == "context"; (err != nil) != isContext || isContext && !strings.Contains(out, "are not recorded: it") {
				t.Errorf("%q: %v: %s", line, err, out)
			}
			outputs[strings.Join(line, " ")] = out
		}
		if info, err := os.Stat(saved); err != nil || info.Mode() != 0o600 {
			t.Errorf("the saved recording: %v, %v", info, err)
		}
		if out, err := ask("runs", "save", run.ID, saved); err == nil || !strings.Contains(out, "exists, it is not overwritten") {
			t.Errorf("a second time it is saved: %v, %s", err, out)
		}
		replay, _ := ask("run", run.Hook, "--hooks-dir", dir, "--from", saved)
		outputs["replay of "+run.Hook], replays[run.Hook] = replay, replay
		shown, err := ask("runs", "show", run.ID)
		if err != nil || !strings.Contains(shown, marker) {
			t.Errorf("the output of %s is not what it printed (%v): %s", run.Hook, err, shown)
		}
	}
	recordings, err := filepath.Glob(filepath.Join(tmp, "operator-*", "recordings", "*"))
	if err != nil || len(recordings) != len(files) {
		t.Errorf("the recordings are %q, want %d (%v)", recordings, len(files), err)
	}
	for _, path := range recordings {
		text, err := os.ReadFile(path)
		info, err2 := os.Stat(path)
		if err != nil || err2 != nil || info.Mode() != 0o600 {
			t.Errorf("%s has mode %s (%v, %v)", path, info.Mode(), err, err2)
		}
		outputs[path] = string(text)
	}
	if out, err := ask("runs", "context", "no-such"); err == nil || !strings.Contains(out, "Hint: ") ||
		!strings.Contains(out, "hook record HOOK --for 10m") {
		t.Errorf("no recording: %v, %s", err, out)
	}
	for name, text := range outputs {
		for _, value := range []string{marker, "0123456789abcdef-0123456789abcdef"} {
			if at := strings.Index(text, value); at >= 0 {
				t.Errorf("%s has %s: %s", name, value, text[max(0, at-300):min(len(text), at+50)])
			}
			for _, run := range encodedRuns.FindAllString(text, -1) {
				for offset := range 4 {
					if decoded, _ := base64.RawStdEncoding.DecodeString(run[offset : len(run)-(len(run)-offset)%4]); strings.Contains(string(decoded),
						value) {
						t.Errorf("%s has %s in base64: %s", name, value, run)
					}
				}
			}
		}
	}
	for name, want := range map[string]string{
		"objects.sh": "its binding contexts have a Secret", "filtered.sh": "its binding contexts have a Secret",
		"operations.sh": "its operations or its response may have a Secret", "unsent.sh": "its operations or its response may have a Secret",
		"invalid.sh": "its operations or its response may have a Secret", "review.sh": "its binding contexts have a Secret",
		"http.sh": "it answers an HTTP request",
	} {
		if !strings.Contains(replays[name], "it cannot be replayed: "+want) {
			t.Errorf("the replay of %s does not report that %s:\n%s", name, want, replays[name])
		}
	}
	op.Signal(os.Interrupt)
	op.Wait()
	if left, _ := filepath.Glob(filepath.Join(tmp, "*")); len(left) > 0 {
		t.Errorf("after the shutdown %q is left", left)
	}
}
