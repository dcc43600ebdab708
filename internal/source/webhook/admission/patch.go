package admission

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	apipatch "gopkg.in/evanphx/json-patch.v4"
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

// checkApplies returns why the API server could not apply a patch to the object of a review. The error contains paths of the
// patch, and no values.
func checkApplies(review, patch []byte) error {
	var r struct {
		Request struct{ Object json.RawMessage }
	}
	if err := json.Unmarshal(review, &r); err != nil || r.Request.Object == nil {
		return nil //nolint:nilerr // it is no review with an object, so there is nothing to compare with
	}
	_, err := ApplyPatch(r.Request.Object, patch)
	return err
}

// ApplyPatch applies the patch of a hook as the API server does, by the same library: later versions of it reject other patches.
func ApplyPatch(object, patch []byte) ([]byte, error) {
	decoded, err := apipatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	patched, err := decoded.Apply(object)
	if err != nil {
		return nil, fmt.Errorf("it does not apply to the object: %w", err)
	}
	return patched, nil
}
