package wire

import (
	"bytes"
	"io"
	"iter"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/shell-operator/shell-operator/internal/hook"
)

// The heads of a context file are what the shell library reads of it in each run, as lines for the builtins of bash. Without them the
// library starts a jq, which takes most of the CPU time of such a run. See context::_load in sdk/shell, which reads this:
//
//	heads 1
//	the length of the context in bytes
//	binding, type, watchEvent, groupName, fromVersion and toVersion, with \x1f between them and \x1e for a line end
//	for each plain value \x1f PATH \x1e VALUE, where PATH has "," and JSON for each of its components, and VALUE is JSON
//	(the last three for each context)
//	end
//
// A value is plain if bash and every jq print it alike: the library asks jq for all others.
const (
	headsBegin, headsEnd = "heads 1\n", "end\n"
	// mostLeaves and longestLeaf bound the work of each query. The library has the same bounds without heads.
	mostLeaves, longestLeaf = 200, 255
	// firstText is enough for most contexts.
	firstText = 16 << 10
	// mostDigits counts the digits that a float64 has exactly, as every jq prints it.
	mostDigits = 15
)

// WriteContextsAndHeads is WriteContexts and returns the heads of the file. They are nil if the library has to read the file itself.
func WriteContextsAndHeads(w io.Writer, form hook.ContextForm, contexts iter.Seq[Context]) (heads []byte, err error) {
	out := &noting{output: newOutput(w), text: make([]byte, 0, firstText)}
	all := &headWriter{lines: []byte(headsBegin)}
	begin := func() { out.text, out.size = out.text[:0], 0 }
	err = writeContexts(out, form, contexts, begin, func() { all.add(out.text, out.size) })
	if err != nil {
		return nil, err
	}
	return all.end(), nil
}

// HeadsOf returns the heads of a context file that was not written here.
func HeadsOf(file []byte) []byte {
	all := &headWriter{lines: []byte(headsBegin)}
	in := jsontext.NewDecoder(bytes.NewBuffer(file))
	if token, err := in.ReadToken(); err != nil || token.Kind() != '[' {
		return nil
	}
	for separator, end := byte('['), int64(0); in.PeekKind() == '{'; separator, end = ',', in.InputOffset() {
		text, err := in.ReadValue()
		// The library expects the contexts where WriteContexts has them.
		if begin := in.InputOffset() - int64(len(text)); err != nil || begin != end+1 || file[end] != separator {
			return nil
		}
		all.add(text, len(text))
	}
	end := in.InputOffset()
	if rest := string(file[end:]); rest != "]" && rest != "]\n" {
		return nil
	}
	return all.end()
}

// noting is an output that also keeps the current context, without the items of its snapshots.
type noting struct {
	output
	text []byte
	// size is the size of the context with its snapshots.
	size       int
	inSnapshot bool
}

func (n *noting) Write(p []byte) (int, error) {
	note(n, p)
	return n.output.Write(p)
}

func (n *noting) WriteString(s string) (int, error) {
	note(n, s)
	return n.output.WriteString(s)
}

func (n *noting) share(p []byte) {
	note(n, p)
	n.output.share(p)
}

func note[Text []byte | string](n *noting, text Text) {
	n.size += len(text)
	if !n.inSnapshot {
		n.text = append(n.text, text...)
	}
}

// headWriter collects the heads of contexts.
type headWriter struct {
	lines []byte
	// unfit is set by a context that the lines cannot have, or that programs may read in different ways.
	unfit bool

	// What follows is of the current context.
	in     jsontext.Decoder
	words  [6]string
	leaves []byte
	count  int
	// path leads to the current value, name has a decoded text.
	path, name []byte
}

// headWords are the names of the words, in order.
var headWords = []string{"binding", "type", "watchEvent", "groupName", "fromVersion", "toVersion"}

// add adds a context whose size may be more than the length of its text.
func (h *headWriter) add(text []byte, size int) {
	h.words, h.leaves, h.count, h.path = [6]string{"unknown"}, h.leaves[:0], 0, h.path[:0]
	// The decoder rejects names that are there twice, of which programs choose different ones, and text that is not UTF-8.
	h.in.Reset(bytes.NewBuffer(text))
	if h.in.PeekKind() != '{' {
		h.unfit = true
	}
	if h.value(0); h.unfit {
		return
	}
	h.lines = append(strconv.AppendInt(h.lines, int64(size), 10), '\n')
	for i, word := range h.words {
		if i > 0 {
			h.lines = append(h.lines, 0x1f)
		}
		h.lines = append(h.lines, bytes.ReplaceAll([]byte(word), []byte("\n"), []byte{0x1e})...)
	}
	h.lines = append(append(append(h.lines, '\n'), h.leaves...), '\n')
}

// end returns the heads.
func (h *headWriter) end() []byte {
	if h.unfit {
		return nil
	}
	return append(h.lines, headsEnd...)
}

// read notes the error of a read. The decoder may have it again, and no end: loops end when the heads are unfit.
func (h *headWriter) read(err error) { h.unfit = h.unfit || err != nil }

// value reads a value, and notes the plain ones in it.
func (h *headWriter) value(depth int) {
	switch kind := h.in.PeekKind(); kind {
	case '{':
		h.object(depth)
	case '[':
		h.array(depth)
	default:
		raw, err := h.in.ReadValue()
		h.read(err)
		if plain := h.plain(kind, raw); plain != nil && h.count < mostLeaves {
			h.leaf(plain)
		}
	}
}

// leaf notes a plain value at the current path.
func (h *headWriter) leaf(plain []byte) {
	h.count++
	h.leaves = append(append(append(append(h.leaves, 0x1f), h.path...), 0x1e), plain...)
}

func (h *headWriter) object(depth int) {
	_, err := h.in.ReadToken()
	h.read(err)
	length := len(h.path)
	for !h.unfit && h.in.PeekKind() == '"' {
		raw, err := h.in.ReadValue()
		h.read(err)
		name := h.plain('"', raw)
		word := -1
		if depth == 0 && name != nil {
			word = slices.Index(headWords, string(name[1:len(name)-1]))
		}
		if word < 0 && (name == nil || h.count == mostLeaves || hidden(depth, name)) {
			h.read(h.in.SkipValue())
			continue
		}
		h.path = append(append(h.path, ','), name...)
		if word >= 0 {
			h.word(word)
		} else {
			h.value(depth + 1)
		}
		h.path = h.path[:length]
	}
	_, err = h.in.ReadToken()
	h.read(err)
}

func (h *headWriter) array(depth int) {
	_, err := h.in.ReadToken()
	h.read(err)
	length := len(h.path)
	for i := 0; !h.unfit && h.in.PeekKind() != ']'; i++ {
		h.path = strconv.AppendInt(append(h.path, ','), int64(i), 10)
		h.value(depth + 1)
		h.path = h.path[:length]
	}
	_, err = h.in.ReadToken()
	h.read(err)
}

// word reads a word, which is a plain value as well. One that bash would not read as it is makes the heads unfit.
func (h *headWriter) word(i int) {
	h.unfit = h.unfit || h.in.PeekKind() != '"'
	raw, err := h.in.ReadValue()
	h.read(err)
	if plain := h.plain('"', raw); plain != nil {
		h.leaf(plain)
	}
	text, err := jsontext.AppendUnquote(nil, raw)
	h.words[i] = string(text)
	h.unfit = h.unfit || err != nil || bytes.ContainsAny(text, "\x00\x1e\x1f")
}

// hidden reports whether no values below a name are noted, because there are very many that are hardly ever read.
func hidden(depth int, name []byte) bool {
	switch string(name) {
	case `"objects"`, `"deleting"`, `"snapshots"`:
		return depth == 0
	case `"managedFields"`:
		return true
	}
	return false
}

// plain returns the JSON of a value as every jq prints it, if that is known and short. It is valid until the next call.
func (h *headWriter) plain(kind jsontext.Kind, raw jsontext.Value) []byte {
	switch kind {
	case '"':
		if len(raw) > 6*longestLeaf {
			return nil
		}
		text, err := jsontext.AppendUnquote(append(h.name[:0], '"'), raw)
		h.name = append(text, '"')
		if err != nil || len(text) > len(`"`)+longestLeaf || slices.ContainsFunc(text[1:], unplain) {
			return nil
		}
		return h.name
	case '0':
		digits := bytes.TrimPrefix(raw, []byte("-"))
		if len(digits) > mostDigits || slices.ContainsFunc(digits, func(c byte) bool { return c < '0' || c > '9' }) || string(raw) == "-0" {
			return nil
		}
	}
	return raw
}

// unplain finds what JSON may write in several ways.
func unplain(c byte) bool { return c < ' ' || c == '"' || c == '\\' || c == 0x7f }
