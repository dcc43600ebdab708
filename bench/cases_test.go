package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// testCases measures the cases of a test file, in turns with bare executions of the same hook.
func testCases(b *bench) {
	const times, cases = 7, 100
	dir := b.hooks(hook(`{configVersion: v1, kubernetes: [{kind: ConfigMap, apiVersion: v1, jqFilter: .data, `+
		`executeHookOnSynchronization: false}]}`,
		`read -r context <"$BINDING_CONTEXT_PATH"
case $context in *'"watchEvent":"Added"'*) announce "a ConfigMap was added" ;; esac`))
	found, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(found) != 1 {
		b.Fatal(err, found)
	}
	program := found[0]
	write := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(b.TempDir(), name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			b.Fatal(err)
		}
		return path
	}
	object := write("object.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: menu}, data: {soup: leek}}\n", 0o600)
	var text strings.Builder
	fmt.Fprintf(&text, "hook: %s\nobjects: %s\nstub: {announce: {stdout: ok}}\ncases:\n", program, object)
	for i := range cases {
		fmt.Fprintf(&text, "- {name: case %d, event: {Added: cm/menu}, expect: {stdout: ok, calls: [[announce, \"*\"]]}}\n", i)
	}
	file := write("many_test.yaml", text.String(), 0o600)
	context := write("context.json", `[{"binding":"kubernetes","type":"Event","watchEvent":"Added","filterResult":{"soup":"leek"}}]`+"\n",
		0o600)
	stub := write("announce", "#!/bin/sh\necho ok\n", 0o755)
	seconds := func(cmd *exec.Cmd) float64 {
		cmd.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+context, "PATH="+filepath.Dir(stub)+":"+os.Getenv("PATH"))
		started := time.Now()
		if out, err := cmd.CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		return time.Since(started).Seconds()
	}
	var tested, bare []float64
	for n := range times + 1 {
		inTests := seconds(exec.Command(b.binary(), "test", file))
		alone := exec.Command("xargs", "-P", "2", "-n", "1", program)
		alone.Stdin = strings.NewReader(strings.Repeat("run\n", cases))
		executed := seconds(alone)
		if n > 0 { // the first pair fills the caches
			tested, bare = append(tested, inTests), append(bare, executed)
		}
	}
	b.add(fmt.Sprintf("%d cases", cases), "s", tested...).against("xargs -P 2", bare...).times(5, 1)
}
