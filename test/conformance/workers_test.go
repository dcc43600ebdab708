package conformance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/scripts"
)

// worker is the recorder as a worker, without a library: each run is a fork of bash.
var worker = scripts.Recorder{Script: `#!/usr/bin/env bash
if [ "$1" = --config ]; then exec cat "$0.yaml"; fi
record() {
  lib=$HOOKS/lib/$(basename "$0")
  if [ -e "$lib" ]; then . "$lib" || exit; fi
  printf 'run '
  cat "$BINDING_CONTEXT_PATH"
}
if [ -z "$HOOK_WORKER_FD" ]; then
  record
  exit
fi
channel=$HOOK_WORKER_FD
unset HOOK_WORKER_FD
echo ready >&"$channel"
while :; do
  variables=()
  while IFS= read -r -d '' variable <&"$channel"; do
    [ -n "$variable" ] || break
    variables+=("$variable")
  done
  [ "${#variables[@]}" -gt 0 ] || exit 0
  (
    exec {channel}>&-
    export "${variables[@]}"
    exec 9<>"$HOOK_STDOUT" >"$HOOK_STDOUT" 9>&-
    exec 9<>"$HOOK_STDERR" 2>"$HOOK_STDERR" 9>&-
    record
  )
  status=$?
  echo "${variables[0]#HOOK_RUN=} $status" >&"$channel"
done
`, Config: asWorker}

// asWorker adds settings.worker to a configuration of version 1.
func asWorker(text []byte) []byte {
	var config map[string]any
	if yaml.Unmarshal(text, &config) != nil || config["configVersion"] != "v1" {
		return text
	}
	settings, _ := config["settings"].(map[string]any)
	if settings == nil {
		settings = map[string]any{}
	}
	settings["worker"] = true
	config["settings"] = settings
	changed, err := json.Marshal(config)
	if err != nil {
		return text
	}
	return append(changed, '\n')
}

// ofWorkers are the scripts that make test and test-cluster run with workers: one for each kind of run. make long runs all.
var ofWorkers = []string{
	"conditions-02", "contexts", "execution", "finalizers-01", "lanes-02", "lanes-03", "outputs-patches", "queues-01", "webhooks-admission",
}

// The scripts of the protocol pass with the same hooks as workers. Those that are about the configuration itself are left out.
func TestConformanceOfWorkers(t *testing.T) {
	dir := t.TempDir()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range all {
		name := filepath.Base(path)
		begins := func(prefix string) bool { return strings.HasPrefix(name, prefix) }
		if slices.ContainsFunc([]string{"config-", "v0-", "workers-"}, begins) || !test.Long() && !slices.ContainsFunc(ofWorkers, begins) {
			continue
		}
		text, err := os.ReadFile(path)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, name), text, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	conformance(t, dir, worker)
}
