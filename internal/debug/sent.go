package debug

import (
	"strings"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
)

// SentList is the answer about all of them.
type SentList struct {
	Operations []apply.Sent `json:"operations"`
	// Dropped is the number of operations of further kinds.
	Dropped int `json:"dropped"`
}

var operationList = listIn("no operations", 0, func(all *SentList) []apply.Sent { return all.Operations },
	column[apply.Sent]{name: "HOOK", cell: func(s *apply.Sent, _ time.Time) string { return s.Hook }},
	column[apply.Sent]{name: "OPERATION", cell: func(s *apply.Sent, _ time.Time) string { return s.Operation }},
	column[apply.Sent]{name: "NAMESPACE", cell: func(s *apply.Sent, _ time.Time) string { return s.Namespace }},
	column[apply.Sent]{name: "RESOURCE", cell: func(s *apply.Sent, _ time.Time) string {
		return strings.TrimSuffix(s.Resource+"."+s.Group, ".")
	}},
	column[apply.Sent]{name: "VERBS", cell: func(s *apply.Sent, _ time.Time) string { return strings.Join(s.Verbs, ",") }},
	column[apply.Sent]{name: "FIRST", cell: func(s *apply.Sent, _ time.Time) string { return s.First.Format(time.RFC3339) }},
)

// OperationsTopic shows the kinds of operations that were sent, in the order of their first one, and the number of operations of further
// kinds.
func OperationsTopic(sent func() (all []apply.Sent, dropped int)) Topic {
	return Topic{Routes: []Route{
		{Method: "GET", Path: "/operation/list", About: "kinds of operations on objects that were sent, and the permissions that they need",
			show: func(r request) (answer, error) {
				all, dropped := sent()
				return r.listed(operationList, SentList{append([]apply.Sent{}, all...), dropped}, time.Now())
			}},
	}}
}
