package insight

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/shell-operator/shell-operator/internal/test"
	"github.com/shell-operator/shell-operator/internal/test/testenv"
)

// stage is a situation in which a hook does not run, on a real operator, and the output of why.
type stage struct {
	name string
	// hooks are configurations and bodies, by the names of hooks.
	hooks map[string][2]string
	args  []string
	// limited operators may do nothing.
	limited bool
	// status is with which the operator ends.
	status int
	// begun is the record after which the situation is there.
	begun []string
	// then changes an object in the namespace; done is the record after which the situation is there.
	then string
	hook string
	// says are the first lines of the output; … matches anything.
	says []string
}

const (
	ofConfigMaps = `{configVersion: v1, kubernetes: [{name: maps, kind: ConfigMap, namespace: {nameSelector: {matchNames: [NAMESPACE]}}%s}]%s}`
	atTheStart   = `{configVersion: v1, onStartup: 1}`
	fails        = "echo 'the disk is full' >&2; exit 1"
	works        = "echo done"
)

func maps(binding, more string) string { return fmt.Sprintf(ofConfigMaps, binding, more) }

// stages are why a hook does not run.
var stages = []stage{
	{
		name:  "its run has failed and is tried again",
		hooks: map[string][2]string{"me.sh": {maps("", ""), fails}},
		begun: []string{"Hook failed. Will retry after delay.", "hook", "me.sh"},
		hook:  "me.sh",
		says: []string{"me.sh: failing",
			`- queue "main": its task is the first of …: HookRun:main:kubernetes:me.sh:maps; it has failed once, ` +
				`the next attempt is in …: me.sh FAILED: the disk is full`},
	},
	{
		name:  "a failing hook is in front of it",
		hooks: map[string][2]string{"a.sh": {maps("", ""), fails}, "me.sh": {maps("", ""), works}},
		begun: []string{"Hook failed. Will retry after delay.", "hook", "a.sh"},
		hook:  "me.sh",
		says: []string{"me.sh: synchronizing",
			`- queue "main": its task is number 2 of …, behind HookRun:main:kubernetes:a.sh:maps, which has failed once, its next attempt is in ` +
				`…: a.sh FAILED: the disk is full`, "  fix the hook a.sh, or give the binding a queue of its own"},
	},
	{
		name:  "a hook that hangs is in front of it",
		hooks: map[string][2]string{"a.sh": {maps("", ""), "echo begun; trap 'exit 0' TERM; sleep 600 & wait"}, "me.sh": {maps("", ""), works}},
		begun: []string{"begun", "hook", "a.sh"},
		args:  []string{"--shutdown-timeout", "1s"}, status: 1,
		hook: "me.sh",
		says: []string{"me.sh: synchronizing",
			`- queue "main": its task is number 2 of …, behind HookRun:main:kubernetes:a.sh:maps, which has been running for …`},
	},
	{
		name: "a permission is missing",
		hooks: map[string][2]string{"me.sh": {`{configVersion: v1, kubernetes: [{name: maps, kind: ConfigMap, ` +
			`namespace: {nameSelector: {matchNames: [NAMESPACE]}}}, {name: nodes, kind: Node}]}`, works}},
		limited: true,
		begun:   []string{"Enable Kubernetes binding for hook failed", "hook", "me.sh"},
		hook:    "me.sh",
		says: []string{"me.sh: not enabled",
			`- binding "maps" is not enabled yet: no permission to list configmaps (v1) in namespace NAMESPACE: …{apiGroups: [""], ` +
				`resources: ["configmaps"], verbs: ["get", "list", "watch"]}`,
			`- binding "nodes" is not enabled yet: no permission to list nodes (v1): …`},
	},
	{
		name:  "a CRD is missing",
		hooks: map[string][2]string{"me.sh": {`{configVersion: v1, kubernetes: [{kind: Saucepan, apiVersion: kitchen.example.com/v1}]}`, works}},
		begun: []string{"Enable Kubernetes binding for hook failed", "hook", "me.sh"},
		hook:  "me.sh",
		says: []string{"me.sh: not enabled",
			`- binding "kubernetes" is not enabled yet: the API server knows no kind, plural or short name "Saucepan" in ` +
				`"kitchen.example.com/v1": is its CRD missing…`},
	},
	{
		name:  "onStartup of another hook fails",
		hooks: map[string][2]string{"first.sh": {atTheStart, fails}, "me.sh": {maps("", ""), works}},
		begun: []string{"Hook failed. Will retry after delay.", "hook", "first.sh"},
		hook:  "me.sh",
		says: []string{"me.sh: starting", "- all onStartup runs of all hooks must succeed first, and this one has not: first.sh, " +
			"which has failed once: first.sh FAILED: the disk is full", "  fix that hook: shell-operator runs first.sh shows its last runs"},
	},
	{
		name:  "its rate limit holds it up",
		hooks: map[string][2]string{"me.sh": {maps("", ", settings: {executionMinInterval: 1h, executionBurst: 1}"), works}},
		begun: []string{"Hook executed successfully", "hook", "me.sh"},
		then:  "queue task",
		hook:  "me.sh",
		says: []string{"me.sh: rate limit",
			`- queue "main": its task is the first of …: HookRun:main:kubernetes:me.sh:maps; it waits for the hook's rate limit ` +
				`(executionMinInterval 1h0m0s, executionBurst 1)`},
	},
	{
		name:  "its Synchronization waits in main, its events in another queue",
		hooks: map[string][2]string{"a.sh": {maps("", ""), fails}, "me.sh": {maps(", queue: own", ""), works}},
		begun: []string{"Hook failed. Will retry after delay.", "hook", "a.sh"},
		hook:  "me.sh",
		says: []string{"me.sh: synchronizing", `- queue "main": its task is number 2 of …, behind HookRun:main:kubernetes:a.sh:maps`, "",
			`- binding "maps": events wait (0 so far) until its Synchronization run has succeeded`},
	},
	{
		name:  "no event matches",
		hooks: map[string][2]string{"me.sh": {maps(", executeHookOnEvent: [Deleted]", ""), works}},
		begun: []string{"Unlock kubernetes.Event tasks", "hook", "me.sh"},
		hook:  "me.sh",
		says: []string{"me.sh: ready", `- binding "maps" sees … of kind ConfigMap and waits for: Deleted`,
			"last run: 1-1, …, succeeded"},
	},
	{
		name:  "nothing is left to do",
		hooks: map[string][2]string{"me.sh": {atTheStart, works}},
		begun: []string{"Hook executed successfully", "hook", "me.sh"},
		hook:  "me.sh",
		says:  []string{"me.sh: idle", "- onStartup is its only binding: it runs once per start", "last run: 1-1, …, succeeded"},
	},
	{
		name:  "no requests",
		hooks: map[string][2]string{"me.sh": {`{configVersion: v1, http: [{name: soup, method: GET, path: /soup}]}`, works}},
		begun: []string{"HTTP hooks are served"},
		hook:  "me.sh",
		says:  []string{"me.sh: ready", "- 1 HTTP binding: it runs for each request of a client"},
	},
}

// TestWhy stages each situation on an operator of its own.
func TestWhy(t *testing.T) {
	cluster := testenv.Shared(t)
	for _, s := range stages {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			namespace, dir := cluster.Namespace(t), t.TempDir()
			for name, h := range s.hooks {
				text := fmt.Sprintf("#!/bin/sh\nif [ \"$1\" = --config ]; then\n  echo '%s'\n  exit\nfi\n%s\n",
					strings.ReplaceAll(h[0], "NAMESPACE", namespace), h[1])
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			o := testenv.OperatorOptions{HooksDir: dir, Kubeconfig: cluster.Kubeconfig, Status: s.status,
				Args: append([]string{"--retry-min-delay", "1h", "--retry-max-delay", "1h"}, s.args...)}
			if s.limited {
				o.Kubeconfig = cluster.UserKubeconfig
			}
			op := testenv.Start(t, o)
			op.UntilLog(s.begun[0], s.begun[1:]...)
			if s.then != "" {
				cluster.Kubectl(t, "-n", namespace, "create", "configmap", "menu")
				op.UntilLog(s.then, "hook", s.hook, "binding", "kubernetes")
			}
			a := &asker{testenv.Binary(t), []string{"DEBUG_UNIX_SOCKET=" + op.Socket}, "", func(text string) string {
				return strings.ReplaceAll(text, namespace, "NAMESPACE")
			}}
			// The log record precedes the state that the test waits for: the task behind, the sleep after the failure.
			var got []string
			for late := time.Now().Add(test.Patience); ; {
				got = strings.Split(strings.TrimSpace(a.ask(t, "why "+s.hook)), "\n")[1:]
				if agrees(got, s.says) {
					return
				}
				if time.Now().After(late) {
					t.Fatalf("why says\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(s.says, "\n"))
				}
			}
		})
	}
}

// agrees compares lines; … stands for anything, a line may go on, and an empty one may be any.
func agrees(got, want []string) bool {
	if len(got) < len(want) {
		return false
	}
	for i, w := range want {
		begin, rest, _ := strings.Cut(w, "…")
		line, ok := strings.CutPrefix(got[i], begin)
		for part := range strings.SplitSeq(rest, "…") {
			if !ok {
				return false
			}
			_, line, ok = strings.Cut(line, part)
		}
		if !ok {
			return false
		}
	}
	return true
}
