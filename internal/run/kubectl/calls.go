package kubectl

import (
	"bytes"
	"slices"
	"strings"
)

// callsVariable names the file in which the trimmed kubectl records its calls. Its name is also in kubectl/trimmed/first.
const callsVariable = "SHELL_OPERATOR_KUBECTL_CALLS"

// Ways that calls take.
const (
	Trimmed  = "trimmed"
	Complete = "complete"
)

// Calls are calls of one run that are alike. Arguments are never kept.
type Calls struct {
	// Verb is the command, or "other" for those that the trimmed kubectl does not have.
	Verb string `json:"verb"`
	// Way is Trimmed or Complete; for the latter, Reason is why.
	Way    string `json:"way"`
	Reason string `json:"reason,omitempty"`
	Count  int    `json:"count"`
}

// Verbs are the commands of the trimmed kubectl. Its list is in kubectl/trimmed/first, a module of its own; test/kubectl calls each.
var Verbs = []string{"annotate", "apply", "auth", "create", "delete", "get", "label", "patch", "replace", "rollout", "scale",
	"version", "wait"}

// Other stands for all commands that are not in Verbs.
const Other = "other"

// reasons of Complete.
var reasons = []string{"command", "flag", "kuberc", "language", "path"}

// Recorded returns the variable that names the file for the calls of a run, if hooks call the trimmed kubectl in its environment.
func Recorded(env []string, file string) []string {
	if !slices.ContainsFunc(env, func(kv string) bool { return strings.HasPrefix(kv, Variable+"=") }) {
		return nil
	}
	return []string{callsVariable + "=" + file}
}

// onSecrets is the line of a call whose arguments name Secrets. It is also in kubectl/trimmed/first.
const onSecrets = "secrets\n"

// OnSecrets reports whether the first bytes of a file of Recorded, at most limit, may be of a run that called kubectl on Secrets.
func OnSecrets(content []byte, limit int) bool {
	return len(content) >= limit || bytes.HasPrefix(content, []byte(onSecrets)) || bytes.Contains(content, []byte("\n"+onSecrets))
}

// ParseCalls returns the calls in a file of Recorded, sorted. Hooks can write anything to it: other lines do not count.
func ParseCalls(content []byte) (all []Calls) {
	if len(content) == 0 {
		return nil
	}
	counts := map[string]int{}
	for line := range bytes.Lines(content) {
		counts[string(line)]++
	}
	add := func(c Calls, line string) {
		if c.Count = counts[line+"\n"]; c.Count > 0 {
			all = append(all, c)
		}
	}
	verbs := append(slices.Clone(Verbs), Other)
	for _, verb := range verbs {
		add(Calls{Verb: verb, Way: Trimmed}, verb+" "+Trimmed)
	}
	for _, verb := range verbs {
		for _, reason := range reasons {
			add(Calls{Verb: verb, Way: Complete, Reason: reason}, verb+" "+Complete+" "+reason)
		}
	}
	return all
}
