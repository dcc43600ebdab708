package debug

import "github.com/shell-operator/shell-operator/internal/effect/apply"

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
				all, dropped := sent()
				return answer{value: SentList{append([]apply.Sent{}, all...), dropped}}, nil
			}},
	}}
}
