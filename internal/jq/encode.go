package jq

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/big"
	"strconv"
	"sync"

	"github.com/itchyny/gojq"
)

// encoder encodes a result and checks that JSON can express it. A filter can nest one value in another many times: the value
// takes little memory, and its text would exceed all memory.
type encoder struct {
	buf   []byte
	depth int
	// nested are the objects and arrays so far.
	nested int
	// err is the first error; text appended afterwards is discarded.
	err error
}

// encoders pools buffers.
var encoders = sync.Pool{New: func() any { return new(encoder) }}

// maxBuffer is the largest buffer that is pooled.
const maxBuffer = 1 << 20

func marshalOne(result any) ([]byte, error) {
	e := encoders.Get().(*encoder)
	defer e.release()
	if e.value(result); e.err != nil {
		return nil, e.err
	}
	return append(make([]byte, 0, len(e.buf)), e.buf...), nil // memory of exactly the right size
}

func (e *encoder) release() {
	if cap(e.buf) > maxBuffer {
		return
	}
	*e = encoder{buf: e.buf[:0]}
	encoders.Put(e)
}

// value appends v as gojq.Marshal writes it.
func (e *encoder) value(v any) {
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
		e.list(v)
	case map[string]any:
		e.object(v)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			e.fail(errors.New("the result has a number that JSON cannot express (nan or infinite)"))
			return
		}
		e.rest(v)
	case *big.Int:
		if e.room(v.BitLen() / 3) {
			e.rest(v)
		}
	default:
		e.rest(v)
	}
}

func (e *encoder) list(list []any) {
	if !e.enter() {
		return
	}
	e.buf = append(e.buf, '[')
	for i, v := range list {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		if e.value(v); e.err != nil {
			return
		}
	}
	e.leave(']')
}

func (e *encoder) object(m map[string]any) {
	if !e.enter() {
		return
	}
	e.buf = append(e.buf, '{')
	var few [fewNames]string
	for i, name := range names(m, few[:0]) {
		if i > 0 {
			e.buf = append(e.buf, ',')
		}
		e.text(name)
		e.buf = append(e.buf, ':')
		if e.value(m[name]); e.err != nil {
			return
		}
	}
	e.leave('}')
}

func (e *encoder) enter() bool {
	if e.depth++; e.depth > maxDepth {
		e.fail(fmt.Errorf("the result is nested more than %d deep: does the filter end?", maxDepth))
		return false
	}
	e.nested++
	return e.room(0)
}

func (e *encoder) leave(bracket byte) {
	e.depth--
	e.buf = append(e.buf, bracket)
}

func (e *encoder) text(s string) {
	if !e.room(len(s)) {
		return
	}
	for i := range len(s) {
		if b := s[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			e.rest(s)
			return
		}
	}
	e.buf = append(e.buf, '"')
	e.buf = append(e.buf, s...)
	e.buf = append(e.buf, '"')
}

// rest encodes rare values.
func (e *encoder) rest(v any) {
	text, _ := gojq.Marshal(v) // it never fails
	e.buf = append(e.buf, text...)
}

// nestedBytes is added to the size of an object or array: brackets take longer to encode, and their readers need more
// memory.
const nestedBytes = 32

// room reports whether n more bytes fit.
func (e *encoder) room(n int) bool {
	if len(e.buf)+e.nested*nestedBytes+n > maxBytes {
		e.fail(fmt.Errorf("the result is more than %d bytes long: select less", maxBytes))
		return false
	}
	return true
}

func (e *encoder) fail(err error) {
	if e.err == nil {
		e.err = err
	}
}
