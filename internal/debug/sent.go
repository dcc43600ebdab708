package debug

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/shell-operator/shell-operator/internal/effect/apply"
)

// SentList is the answer about all of them.
type SentList struct {
	Operations []apply.Sent `json:"operations"`
	// Dropped is the number of operations of further kinds.
	Dropped int `json:"dropped"`
}

// OperationsTopic shows the kinds of operations that were sent, in the order of their first one, and the number of operations of further
// kinds.
func OperationsTopic(sent func() (all []apply.Sent, dropped int)) Topic {
	return Topic{Routes: []Route{
		{Method: "GET", Path: "/operation/list", About: "kinds of operations on objects that were sent, and the permissions that they need",
			show: func(request) (answer, error) {
				return operationList(sent())
			}},
	}}
}

func operationList(all []apply.Sent, dropped int) (answer, error) {
	list := SentList{Operations: append([]apply.Sent{}, all...), Dropped: dropped}
	if len(all) == 0 {
		return answer{value: list, text: "no operations\n"}, nil
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOOK\tOPERATION\tNAMESPACE\tRESOURCE\tVERBS\tFIRST")
	for _, s := range all {
		resource := s.Resource
		if s.Group != "" {
			resource += "." + s.Group
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", s.Hook, s.Operation, s.Namespace, resource, strings.Join(s.Verbs, ","),
			s.First.Format(time.RFC3339))
	}
	_ = w.Flush()
	return answer{value: list, text: trimLines(b.String())}, nil
}
