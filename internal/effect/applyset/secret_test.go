package applyset

import (
	"encoding/json"
	"testing"
)

// What an API server accepts of a Secret, a Sync accepts, too: null is nothing.
func TestStringDataOfSecrets(t *testing.T) {
	for secret, want := range map[string]string{
		`{"stringData":{"a":"x"}}`:                             `{"data":{"a":"eA=="}}`,
		`{"stringData":{"a":"x"},"data":null}`:                 `{"data":{"a":"eA=="}}`,
		`{"stringData":{"a":"x"},"data":{}}`:                   `{"data":{"a":"eA=="}}`,
		`{"stringData":{"a":"x"},"data":{"a":"b","b":"eQ=="}}`: `{"data":{"a":"eA==","b":"eQ=="}}`,
		`{"stringData":{"a":null},"data":null}`:                `{"data":{"a":""}}`,
		`{"stringData":null,"data":null}`:                      `{"data":{}}`,
		`{"stringData":null,"data":{"b":"eQ=="}}`:              `{"data":{"b":"eQ=="}}`,
		`{"stringData":{},"data":{"b":"eQ=="}}`:                `{"data":{"b":"eQ=="}}`,
		`{"data":null}`:                                        `{"data":null}`,
		`{"stringData":[],"data":null}`:                        "stringData is not a mapping of texts",
		`{"stringData":{"a":"x"},"data":[]}`:                   "data is not a mapping",
		`{"stringData":{"a":"x"},"data":"y"}`:                  "data is not a mapping",
	} {
		var tree map[string]json.RawMessage
		if err := json.Unmarshal([]byte(secret), &tree); err != nil {
			t.Fatal(err)
		}
		err := encode(tree)
		text, _ := json.Marshal(tree)
		if got := string(text); err == nil && got != want || err != nil && err.Error() != want {
			t.Errorf("%s: %s, error %v, want %s", secret, got, err, want)
		}
	}
}
