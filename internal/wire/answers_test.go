package wire

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/shell-operator/shell-operator/internal/effect"
)

func TestAnswersThatAreNotValid(t *testing.T) {
	answers(t, "testdata/admission-invalid.txt", func(file string) string {
		_, err := ParseAdmission([]byte(file))
		return fmt.Sprint(err)
	})
	for _, file := range []string{"", `[]`, `{"convertedObjects": {}}`, `{"failedMessage": 1}`} {
		if _, err := ParseConversion([]byte(file)); err == nil || !strings.Contains(err.Error(), "$CONVERSION_RESPONSE_PATH") {
			t.Errorf("%q: %v", file, err)
		}
	}
}

// FuzzParseAdmission checks that no file breaks the parser, and that an encoded answer parses to the same value.
func FuzzParseAdmission(f *testing.F) {
	for _, file := range []string{
		`{"allowed": true}`, `{"allowed": false, "message": "no \ud800", ` +
			`"warnings": ["a\nb", ""]}`, `{"allowed": true, "patch": "W10="} {"allowed": false}`,
		`{"Allowed": true, "allowed": false}`, `null`, "", `{"patch": ""}`, `{"warnings": null}`,
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		answer, err := ParseAdmission(file)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "the file that $ADMISSION_RESPONSE_PATH names is not valid: ") {
				t.Fatalf("the error does not say where: %v", err)
			}
			return
		}
		text, err := json.Marshal(map[string]any{"allowed": answer.Allowed, "message": answer.Message, "warnings": answer.Warnings,
			"patch": answer.Patch})
		if err != nil {
			t.Fatal(err)
		}
		again, err := ParseAdmission(text)
		if err != nil || !reflect.DeepEqual(again, answer) {
			t.Fatalf("%+v became %+v: %v", answer, again, err)
		}
	})
}

// FuzzParseConversion checks that no file breaks the reader, and that objects come out as the JSON that they were.
func FuzzParseConversion(f *testing.F) {
	for _, file := range []string{
		`{"convertedObjects": [{"apiVersion": "a/v1", "kind": "B"}, null, 1]}`, `{"failedMessage": "no"}`, `{"convertedObjects": null}`,
		`{"convertedObjects": [], "failedMessage": ""} x`, `null`, "", `{"convertedObjects": [{"a": 1.0e400}]}`,
	} {
		f.Add([]byte(file))
	}
	f.Fuzz(func(t *testing.T, file []byte) {
		answer, err := ParseConversion(file)
		if err != nil {
			if !strings.HasPrefix(err.Error(), "the file that $CONVERSION_RESPONSE_PATH names is not valid: ") {
				t.Fatalf("the error does not say where: %v", err)
			}
			return
		}
		for _, o := range answer.Objects {
			// An object reaches the API server as the hook wrote it.
			if !json.Valid(o) || !strings.Contains(string(file), string(o)) {
				t.Fatalf("%q is no object of %q", o, file)
			}
		}
		text := `{"convertedObjects":[`
		for i, o := range answer.Objects {
			if i > 0 {
				text += ","
			}
			text += string(o)
		}
		message, _ := json.Marshal(answer.Failure)
		again, err := ParseConversion([]byte(text + `],"failedMessage":` + string(message) + "}"))
		if err != nil || !same(again, answer) {
			t.Fatalf("%+v became %+v: %v", answer, again, err)
		}
	})
}

func same(a, b effect.ConversionAnswer) bool {
	return a.Failure == b.Failure && slices.EqualFunc(a.Objects, b.Objects, func(x, y json.RawMessage) bool { return bytes.Equal(x, y) })
}

// TestMeantAllowed: an answer with a near miss of allowed denies with a message that names the key, unless it has a message.
func TestMeantAllowed(t *testing.T) {
	const meant = `the answer of the hook has the unknown key "allow": did you mean "allowed"?`
	for file, want := range map[string]string{
		`{"allow": true}`: meant, `{"allow": true, "message": "no"}`: "no", `{"allow": true, "allowed": false}`: "", `{"ok": true}`: "", `{}`: "",
	} {
		if answer, err := ParseAdmission([]byte(file)); err != nil || answer.Allowed || answer.Message != want {
			t.Errorf("%s: %+v, %v", file, answer, err)
		}
	}
}
