package main

import (
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/spelling"
)

// ownPrefixes begin variables that are ours or a mistake. Families that other programs share, such as LOG_, are not checked.
var ownPrefixes = []string{"SHELL_OPERATOR_", "VALIDATING_WEBHOOK_", "CONVERSION_WEBHOOK_", "OBJECT_PATCHER_", "KUBE_CLIENT_",
	"QUEUE_ACTIONS_", "TRACING_OTLP_"}

// withoutFlag are the variables that have no flag.
var withoutFlag = []string{"QUEUE_ACTIONS_METRICS", "SHELL_OPERATOR_KUBECTL_FILE"}

// ofService are the variables that Kubernetes makes for a Service, whose name may begin like our prefixes. NAME_PORT is one by its value.
var (
	ofService      = regexp.MustCompile(`_SERVICE_HOST$|_SERVICE_PORT(_|$)|_PORT_\d+_(TCP|UDP|SCTP)(_|$)`)
	valueOfService = regexp.MustCompile(`^(tcp|udp|sctp)://`)
)

// warnAboutVariables logs each variable that begins like ours and is none. Values may be secret and are not logged.
func (s *settings) warnAboutVariables(log *slog.Logger) {
	known := slices.Clone(withoutFlag)
	for _, row := range s.list {
		known = append(known, row.env)
	}
	for _, name := range slices.Sorted(maps.Keys(s.env)) {
		own := slices.ContainsFunc(ownPrefixes, func(p string) bool { return strings.HasPrefix(name, p) })
		if !own || slices.Contains(known, name) || ofService.MatchString(name) || valueOfService.MatchString(s.env[name]) {
			continue
		}
		if nearest := spelling.Nearest(name, known); nearest != "" {
			log.Warn("Unknown variable: did you mean "+nearest+"?", "variable", name, "nearest", nearest)
			continue
		}
		log.Warn("Unknown variable: remove it, or check its name with shell-operator options", "variable", name)
	}
}
