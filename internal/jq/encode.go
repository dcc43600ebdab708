package jq

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"

	"github.com/itchyny/gojq"
)

// encoder writes a result as gojq.Marshal does, and checks that JSON can express it. A filter can nest one value in another many times: the
// value takes little memory, and its text would exceed all memory. gojq.Marshal takes twice as long for the result of .metadata.labels, the
// evaluation included (BenchmarkFilters).
type encoder struct {
	buf []byte
	// nested are the objects and arrays so far.
	nested int
}

// nestedBytes is added to the size of an object or array: brackets take longer to encode, and their readers need more
// memory.
const nestedBytes = 32

func marshalOne(result any) ([]byte, error) {
	e := encoder{buf: make([]byte, 0, 256)}
	if err := e.value(result, 0); err != nil {
		return nil, err
	}
	return append(make([]byte, 0, len(e.buf)), e.buf...), nil // memory of exactly the right size
}

// value appends the text of a value in so many others.
func (e *encoder) value(v any, depth int) error {
	separator := ""
	switch v := v.(type) {
	case nil:
		e.buf = append(e.buf, "null"...)
	case bool:
		e.buf = strconv.AppendBool(e.buf, v)
	case int:
		e.buf = strconv.AppendInt(e.buf, int64(v), 10)
	case json.Number:
		e.buf = append(e.buf, v...)
	case string:
		e.text(v)
	case []any:
		if err := e.enter('[', depth); err != nil {
			return err
		}
		for _, v := range v {
			e.buf = append(e.buf, separator...)
			separator = ","
			if err := e.value(v, depth+1); err != nil {
				return err
			}
		}
		e.buf = append(e.buf, ']')
	case map[string]any:
		if err := e.enter('{', depth); err != nil {
			return err
		}
		var few [fewNames]string
		for _, name := range names(v, few[:0]) {
			e.buf = append(e.buf, separator...)
			separator = ","
			e.text(name)
			e.buf = append(e.buf, ':')
			if err := e.value(v[name], depth+1); err != nil {
				return err
			}
		}
		e.buf = append(e.buf, '}')
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return errors.New("the result has a number that JSON cannot express (nan or infinite)")
		}
		e.rare(v)
	case *big.Int:
		if v.BitLen()/3 > maxBytes {
			return errTooLarge
		}
		e.rare(v)
	default:
		e.rare(v)
	}
	return e.fits()
}

func (e *encoder) enter(bracket byte, depth int) error {
	if depth == maxDepth {
		return fmt.Errorf("the result is nested more than %d deep: does the filter end?", maxDepth)
	}
	e.nested++
	e.buf = append(e.buf, bracket)
	return e.fits()
}

var errTooLarge = fmt.Errorf("the result is more than %d bytes long: select less", maxBytes)

func (e *encoder) fits() error {
	if len(e.buf)+e.nested*nestedBytes > maxBytes {
		return errTooLarge
	}
	return nil
}

func (e *encoder) text(s string) {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			e.rare(s)
			return
		}
	}
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, '"')
}

func (e *encoder) rare(v any) {
	text, _ := gojq.Marshal(v) // it never fails
	e.buf = append(e.buf, text...)
}
