package debug

import (
	"slices"
	"strings"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
)

// SentList is the answer about all of them.
type SentList struct {
	Operations []apply.Sent `json:"operations"`
	// Dropped is the number of operations of further kinds.
	Dropped int `json:"dropped"`
}

// sentCells are the cells of a kind of operations in a list.
func sentCells(s *apply.Sent) []Cell {
	return []Cell{asText.of("OPERATION", s.Operation), asText.of("RESOURCE", strings.TrimSuffix(s.Resource+"."+s.Group, ".")),
		asText.of("NAMESPACE", s.Namespace), asText.of("VERBS", strings.Join(s.Verbs, ", ")), asAge.of("FIRST", s.First)}
}

// Table are the operations of a hook as rows.
func (l *SentList) Table(hook string) Table {
	of := slices.DeleteFunc(slices.Clone(l.Operations), func(s apply.Sent) bool { return s.Hook != hook })
	return TableOf("operations", of, sentCells)
}

// OperationsTopic shows the kinds of operations that were sent, in the order of their first one, and the number of operations of further
// kinds.
func OperationsTopic(sent func() (all []apply.Sent, dropped int)) Topic {
	return Topic{Routes: []Route{
		{Method: "GET", Path: "/operation/list", About: "kinds of operations on objects that were sent, and the permissions that they need",
			show: func(request) (answer, error) {
				all, dropped := sent()
				return answer{value: SentList{append([]apply.Sent{}, all...), dropped}}, nil
			}},
	}}
}
