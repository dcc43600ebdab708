package examples

import (
	"strings"
	"testing"
)

func TestConvertCrontab(t *testing.T) {
	killedAndUndisturbed(t, prepareAlone, "convert-crontab", []string{"jq"}, convertCrontab)
}

const brokenCrontab = `{apiVersion: example.com/v1alpha1, kind: CronTab, metadata: {name: broken}, spec: {cron: "5 4"}}`

// convertCrontab begins with an object that the hook rejects, or that is not converted when the hook is killed.
func convertCrontab(e *example) {
	first := "broken: spec.cron \"5 4\" has not five fields"
	if e.kills {
		first = "Hook failed to convert to example.com/v1"
	}
	// Runs after the operator has ended. Without it conversions fail, and the API server would retry forever.
	e.t.Cleanup(func() {
		e.kubectl("patch", "crd", "crontabs.example.com", "--type=merge", "-p", `{"spec":{"conversion":{"strategy":"None","webhook":null}}}`)
		e.kubectl("delete", "crd", "crontabs.example.com", "--timeout=60s")
	})
	e.start()
	e.operator.UntilLog("The CRD leads to the conversion hooks")
	e.patient("the first refusal", func() bool {
		out, err := e.try(brokenCrontab, "create", "-f", "-", "--dry-run=server")
		if err != nil && !strings.Contains(out, first) {
			e.t.Fatalf("the first refusal is %s", out)
		}
		return err != nil
	})

	// The user gets the hook's message.
	out, err := e.try(brokenCrontab, "create", "-f", "-")
	if err == nil || !strings.Contains(out, `broken: spec.cron "5 4" has not five fields`) {
		e.t.Errorf("not refused with the hook's message: %s", out)
	}

	// Written in each version, read in each version.
	e.input(`
{apiVersion: example.com/v1alpha1, kind: CronTab, metadata: {name: alpha}, spec: {cron: "5 4  * * 1", command: a}}
---
{apiVersion: example.com/v1beta1, kind: CronTab, metadata: {name: beta}, spec: {minute: "5", hour: "4", dayOfMonth: "*", month: "*", dayOfWeek: "1", command: a}}
---
{apiVersion: example.com/v1, kind: CronTab, metadata: {name: stable, labels: {kept: "yes"}}, spec: {schedule: {minute: "5", hour: "4", dayOfMonth: "*", month: "*", dayOfWeek: "1"}, command: a}}
`, "create", "-f", "-")
	const list = `{range .items[*]}{.apiVersion} {.metadata.name} {.spec}{"\n"}{end}`
	for version, spec := range map[string]string{
		"v1alpha1": `{"command":"a","cron":"5 4 * * 1"}`,
		"v1beta1":  `{"command":"a","dayOfMonth":"*","dayOfWeek":"1","hour":"4","minute":"5","month":"*"}`,
		"v1":       `{"command":"a","schedule":{"dayOfMonth":"*","dayOfWeek":"1","hour":"4","minute":"5","month":"*"}}`,
	} {
		want := ""
		for _, name := range []string{"alpha", "beta", "stable"} {
			want += "example.com/" + version + " " + name + " " + spec + "\n"
		}
		if got := e.kubectl("get", "crontabs."+version+".example.com", "-o", "jsonpath="+list); got != want {
			e.t.Errorf("in %s there is\n%s, not\n%s", version, got, want)
		}
	}

	// A change in an old version is one in all of them. Fields unknown to the conversion stay.
	e.kubectl("patch", "crontabs.v1alpha1.example.com", "stable", "--type=merge", "-p", `{"spec":{"cron":"30 2 1 * *"}}`)
	const fields = `jsonpath={.spec.schedule.minute} {.spec.schedule.hour} {.spec.schedule.dayOfMonth} {.spec.command} {.metadata.labels.kept}`
	if got := e.kubectl("get", "crontabs.v1.example.com", "stable", "-o", fields); got != "30 2 1 a yes" {
		e.t.Errorf("after the change in v1alpha1: %s", got)
	}
	out, err = e.try("", "patch", "crontabs.v1alpha1.example.com", "stable", "--type=merge", "-p", `{"spec":{"cron":"often"}}`)
	if err == nil || !strings.Contains(out, `stable: spec.cron "often" has not five fields`) {
		e.t.Errorf("a wrong change is not refused with the hook's message: %s", out)
	}
	// A missing field means any time.
	e.input(`{apiVersion: example.com/v1, kind: CronTab, metadata: {name: short}, spec: {schedule: {hour: "4"}}}`, "create", "-f", "-")
	if got := e.kubectl("get", "crontabs.v1alpha1.example.com", "short", "-o", "jsonpath={.spec.cron}"); got != "* 4 * * *" {
		e.t.Errorf("with one field: %s", got)
	}

	// The next operator has another address and another certificate. It takes over.
	e.restart()
	e.operator.UntilLog("The CRD leads to the conversion hooks now")
	e.patient("the next operator", func() bool {
		out, err := e.try("", "get", "crontabs.v1beta1.example.com", "short", "-o", "jsonpath={.spec.hour}")
		return err == nil && out == "4"
	})
}
