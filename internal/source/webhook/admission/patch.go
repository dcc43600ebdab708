package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
)

// checkPatch finds errors for which the API server would reject a JSON patch of any object, with a clearer message. The
// error contains no values of the patch.
func checkPatch(patch []byte) error {
	var operations []json.RawMessage
	if err := json.Unmarshal(patch, &operations); err != nil {
		return errors.New(`it is not a JSON patch, that is a list such as [{"op": "add", "path": "/metadata/labels/a", "value": "b"}]`)
	}
	for i, text := range operations {
		if err := checkOperation(text); err != nil {
			return fmt.Errorf("operation %d: %w", i, err)
		}
	}
	return nil
}

func checkOperation(text json.RawMessage) error {
	var fields struct{ Op, Path, From any }
	if err := json.Unmarshal(text, &fields); err != nil {
		return errors.New("it is not an object")
	}
	if op, ok := fields.Op.(string); !ok {
		return errors.New(`it has no "op"`)
	} else if !slices.Contains([]string{"add", "remove", "replace", "move", "copy", "test"}, op) {
		return fmt.Errorf("unknown op %q", op)
	}
	if _, err := jsonpatch.DecodePatch(bytes.Join([][]byte{[]byte("["), text, []byte("]")}, nil)); err != nil {
		// Its text has the whole operation, the wrapped error has not.
		if inner := errors.Unwrap(err); inner != nil {
			err = inner
		}
		return fmt.Errorf("op %q: %w", fields.Op, err)
	}
	for _, pointer := range []struct {
		field string
		value any
	}{{"path", fields.Path}, {"from", fields.From}} {
		if s, ok := pointer.value.(string); ok && s != "" && !strings.HasPrefix(s, "/") {
			return fmt.Errorf("op %q: %s %q does not begin with a slash", fields.Op, pointer.field, s)
		}
	}
	return nil
}

// orNothing is nil for a patch without operations.
func orNothing(patch []byte) []byte {
	var operations []json.RawMessage
	if json.Unmarshal(patch, &operations) == nil && len(operations) == 0 {
		return nil
	}
	return patch
}
