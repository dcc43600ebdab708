package jq

import (
	"encoding/json"
	"strconv"
	"sync"

	"github.com/itchyny/gojq"
)

// buffers are for texts that are being made.
var buffers = sync.Pool{New: func() any { return new([]byte) }}

// maxBuffer is the size of a buffer that is not worth keeping.
const maxBuffer = 1 << 20

// appendValue appends v as gojq.Marshal writes it, without a buffer of its own for each.
func appendValue(buf []byte, v any) []byte {
	switch v := v.(type) {
	case nil:
		return append(buf, "null"...)
	case bool:
		return strconv.AppendBool(buf, v)
	case int:
		return strconv.AppendInt(buf, int64(v), 10)
	case json.Number:
		return append(buf, v...)
	case string:
		return appendString(buf, v)
	case []any:
		buf = append(buf, '[')
		for i, e := range v {
			if i > 0 {
				buf = append(buf, ',')
			}
			buf = appendValue(buf, e)
		}
		return append(buf, ']')
	case map[string]any:
		return appendObject(buf, v)
	}
	return appendRest(buf, v)
}

func appendObject(buf []byte, m map[string]any) []byte {
	buf = append(buf, '{')
	for i, name := range names(m) {
		if i > 0 {
			buf = append(buf, ',')
		}
		buf = appendString(buf, name)
		buf = append(buf, ':')
		buf = appendValue(buf, m[name])
	}
	return append(buf, '}')
}

func appendString(buf []byte, s string) []byte {
	for i := range len(s) {
		if b := s[i]; b < ' ' || b > '~' || b == '"' || b == '\\' {
			return appendRest(buf, s)
		}
	}
	buf = append(buf, '"')
	buf = append(buf, s...)
	return append(buf, '"')
}

// appendRest is for what is rare.
func appendRest(buf []byte, v any) []byte {
	text, _ := gojq.Marshal(v) // it never fails
	return append(buf, text...)
}
