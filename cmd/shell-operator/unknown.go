package main

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/shell-operator/shell-operator/internal/spelling"
)

// Variables that begin like ours are ours or a mistake. Families that other programs share are a mistake only if they
// are a slip of the pen away from one of ours.
var (
	ownPrefixes = []string{"SHELL_OPERATOR_", "VALIDATING_WEBHOOK_", "CONVERSION_WEBHOOK_", "OBJECT_PATCHER_", "KUBE_CLIENT_",
		"QUEUE_ACTIONS_", "TRACING_OTLP_"}
	sharedPrefixes = []string{"DEBUG_", "LOG_", "KUBE_", "JQ_"}
)

// withoutFlag are the variables that have no flag.
var withoutFlag = []string{"QUEUE_ACTIONS_METRICS", "SHELL_OPERATOR_KUBECTL_FILE", "TRACING_OTLP_ENDPOINT", "TRACING_OTLP_AUTH_TOKEN"}

// ofService are the variables that Kubernetes makes for a Service, whose name may begin like our prefixes.
var ofService = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT$|_PORT_\d+_(TCP|UDP|SCTP)(_|$)`)

// unknownVariable is a variable that looks like a setting and is none.
type unknownVariable struct {
	name, nearest string
}

// unknownVariables finds variables that begin like ours and are none, sorted.
func (s *settings) unknownVariables() (found []unknownVariable) {
	known := slices.Clone(withoutFlag)
	for _, row := range s.list {
		known = append(known, row.env)
	}
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		// The prefixes first: a Pod has variables for each Service of its namespace, and comparing one with all names takes a millisecond.
		if !begins(name, ownPrefixes) && !begins(name, sharedPrefixes) || slices.Contains(known, name) {
			continue
		}
		near := spelling.Nearest(name, known)
		slip := near != ""
		switch {
		case ofService.MatchString(name) && !(slip && isNumber(s.env[name]) && !strings.HasSuffix(name, "_SERVICE_PORT")):
			// Kubernetes sets …_PORT to an address such as tcp://10.0.0.1:80, never to a number.
		case slip, begins(name, ownPrefixes):
			found = append(found, unknownVariable{name, near})
		}
	}
	return found
}

func begins(name string, prefixes []string) bool {
	return slices.ContainsFunc(prefixes, func(p string) bool { return strings.HasPrefix(name, p) })
}

func isNumber(text string) bool {
	_, err := strconv.Atoi(text)
	return err == nil
}

// warnAboutVariables logs each unknown variable. Values may be secret and are not logged.
func (s *settings) warnAboutVariables(log *slog.Logger) {
	for _, u := range s.unknownVariables() {
		if u.nearest == "" {
			log.Warn("Unknown variable: remove it, or check its name with shell-operator options", "variable", u.name)
			continue
		}
		log.Warn("Unknown variable: did you mean "+u.nearest+"?", "variable", u.name, "nearest", u.nearest)
	}
}
