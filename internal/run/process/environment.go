package process

import "strings"

// Variable returns the value of a variable; of several with one name the last counts.
func Variable(env []string, name string) (value string) {
	for _, kv := range env {
		if v, ok := strings.CutPrefix(kv, name+"="); ok {
			value = v
		}
	}
	return value
}
