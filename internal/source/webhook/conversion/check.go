package conversion

import (
	"encoding/json"
	"fmt"
)

// check parses the objects that a hook has converted, and rejects what the API server would reject later without knowing
// the hook.
func check(s step, desired string, given []object, made []json.RawMessage) ([]object, error) {
	if len(made) != len(given) {
		return nil, fmt.Errorf("it returned %d objects for %d: convertedObjects must have each object once, in the same order",
			len(made), len(given))
	}
	objects := make([]object, len(made))
	for i, raw := range made {
		o, err := readObject(raw)
		if err != nil {
			return nil, fmt.Errorf("it returned something else than an object for object %d (%s): %w", i+1, given[i].identity, err)
		}
		// A hook may convert to desiredAPIVersion directly, which is several steps in one.
		if o.version != s.to && o.version != desired {
			return nil, fmt.Errorf("it returned object %d (%s) with the apiVersion %q, not %q", i+1, given[i].identity, o.version, s.to)
		}
		if o.identity != given[i].identity {
			return nil, fmt.Errorf("it returned object %d (%s) as another one (%s): the order of objects, their kinds, names, "+
				"namespaces and uids must not change",
				i+1, given[i].identity, o.identity)
		}
		objects[i] = o
	}
	return objects, nil
}
