package telemetry

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// loggerField is the field that names the component; it comes before the message.
const loggerField = "logger"

// jsonFormat writes one JSON object: level, logger, msg, source, the other fields, time.
type jsonFormat struct{}

func (jsonFormat) append(buf []byte, r *logRecord) []byte {
	buf = append(buf, `{"level":"`...)
	buf = append(buf, LevelName(r.level)...)
	buf = append(buf, '"')
	for _, f := range r.fields {
		if f.Key == loggerField {
			buf = appendField(buf, f)
		}
	}
	buf = appendField(buf, slog.String("msg", r.msg))
	if r.source != "" {
		buf = appendField(buf, slog.String("source", r.source))
	}
	for _, f := range r.fields {
		if f.Key != loggerField {
			buf = appendField(buf, f)
		}
	}
	if !r.time.IsZero() {
		buf = append(buf, `,"time":"`...)
		buf = r.time.AppendFormat(buf, time.RFC3339)
		buf = append(buf, '"')
	}
	return append(buf, "}\n"...)
}

func appendField(buf []byte, f slog.Attr) []byte {
	buf = append(buf, ',')
	buf = quote(buf, f.Key)
	buf = append(buf, ':')
	return appendValue(buf, f.Value)
}

func appendValue(buf []byte, v slog.Value) []byte {
	switch v.Kind() {
	case slog.KindString:
		return quote(buf, v.String())
	case slog.KindInt64:
		return strconv.AppendInt(buf, v.Int64(), 10)
	case slog.KindUint64, slog.KindBool, slog.KindFloat64:
		if text, err := json.Marshal(v.Any()); err == nil {
			return append(buf, text...)
		}
	case slog.KindAny:
		switch x := v.Any().(type) {
		case error:
			return quote(buf, x.Error())
		case fmt.Stringer:
			return quote(buf, x.String())
		}
		if text, err := json.Marshal(v.Any()); err == nil {
			return append(buf, text...)
		}
	}
	return quote(buf, v.String())
}

// quote appends s as a JSON string. What is not UTF-8 is replaced.
func quote(buf []byte, s string) []byte {
	buf, _ = jsontext.AppendQuote(buf, s)
	return buf
}

// textFormat writes <time> <LEVEL> logger=<name> msg='<text>' <key>='<value>' …
type textFormat struct{ color bool }

func (t textFormat) append(buf []byte, r *logRecord) []byte {
	if !r.time.IsZero() {
		buf = r.time.AppendFormat(buf, time.RFC3339)
		buf = append(buf, ' ')
	}
	level := strings.ToUpper(LevelName(r.level))
	if t.color {
		buf = append(buf, colorOf(r.level)...)
		buf = append(buf, level...)
		buf = append(buf, "\x1b[0m"...)
	} else {
		buf = append(buf, level...)
	}
	for _, f := range r.fields {
		if f.Key == loggerField {
			buf = append(buf, " logger="...)
			buf = appendOneLine(buf, f.Value.String())
		}
	}
	buf = appendText(buf, "msg", r.msg)
	if r.source != "" {
		buf = appendText(buf, "source", r.source)
	}
	for _, f := range r.fields {
		if f.Key != loggerField {
			buf = appendNested(buf, f.Key, f.Value)
		}
	}
	return append(buf, '\n')
}

func appendText(buf []byte, key, value string) []byte {
	buf = append(buf, ' ')
	buf = appendOneLine(buf, key)
	buf = append(buf, "='"...)
	buf = appendOneLine(buf, value)
	return append(buf, '\'')
}

// appendOneLine escapes quotes, backslashes and control characters, so that a value ends where its quote does and output of hooks
// cannot control the terminal.
func appendOneLine(buf []byte, s string) []byte {
	for _, c := range []byte(s) {
		switch {
		case c == '\'' || c == '\\':
			buf = append(buf, '\\', c)
		case c == '\n':
			buf = append(buf, `\n`...)
		case c == '\r':
			buf = append(buf, `\r`...)
		case c == '\t' || c >= ' ' && c != 0x7f:
			buf = append(buf, c)
		case c == '\x1b':
			buf = append(buf, `\e`...)
		default:
			buf = fmt.Appendf(buf, `\x%02x`, c)
		}
	}
	return buf
}

// appendNested takes JSON values apart: keys are joined with dots, list items are key[0].
func appendNested(buf []byte, key string, v slog.Value) []byte {
	text, isJSON := v.Any().(json.RawMessage)
	if v.Kind() != slog.KindAny || !isJSON {
		if v.Kind() == slog.KindString {
			return appendText(buf, key, v.String())
		}
		value := string(appendValue(nil, v))
		var s string
		if json.Unmarshal([]byte(value), &s) == nil {
			value = s
		}
		return appendText(buf, key, value)
	}
	var tree any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if decoder.Decode(&tree) != nil {
		return appendText(buf, key, string(text))
	}
	return appendTree(buf, key, tree)
}

func appendTree(buf []byte, key string, tree any) []byte {
	switch tree := tree.(type) {
	case map[string]any:
		if len(tree) == 0 {
			return appendText(buf, key, "{}")
		}
		for _, name := range slices.Sorted(maps.Keys(tree)) {
			buf = appendTree(buf, key+"."+name, tree[name])
		}
		return buf
	case []any:
		if len(tree) == 0 {
			return appendText(buf, key, "[]")
		}
		for i, value := range tree {
			buf = appendTree(buf, fmt.Sprintf("%s[%d]", key, i), value)
		}
		return buf
	case string:
		return appendText(buf, key, tree)
	}
	text, _ := json.Marshal(tree)
	return appendText(buf, key, string(text))
}

func colorOf(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "\x1b[31m"
	case l >= slog.LevelWarn:
		return "\x1b[33m"
	case l >= slog.LevelInfo:
		return "\x1b[36m"
	}
	return "\x1b[90m"
}
