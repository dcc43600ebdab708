package script

import (
	"slices"
	"strings"
)

// pythonReader is the same check for Python, on tokens. It understands the usual ways to open the file, to load it and to take
// the first context. Names are compared as text, whatever their scope: each use of a name that has the contexts must be one of
// these ways.
type pythonReader struct {
	source Source
	tokens []token
	vars   map[string]pythonValue
	known  map[int]bool
	result Reading
}

// pythonValue is what a name stands for.
type pythonValue int

const (
	pyNone pythonValue = iota
	pyFirst
	pyPath
	pyFile
	pyContexts
)

func readsOfPython(s Source) Reading {
	tokens, ok := pythonTokens(string(s.Text))
	r := &pythonReader{source: s, tokens: tokens, vars: map[string]pythonValue{}}
	if !ok {
		return Reading{Doubt: Place{Path: s.Path}, Why: "its syntax is not understood"}
	}
	for {
		before := len(r.vars)
		r.pass()
		if len(r.vars) == before {
			return r.result
		}
	}
}

func (r *pythonReader) doubt(i int, why string) {
	if r.result.Why == "" {
		r.result.Doubt, r.result.Why = r.source.place(r.tokens[i].line), why
	}
}

func (r *pythonReader) pass() {
	r.known, r.result = map[int]bool{}, Reading{}
	for i := range r.tokens {
		r.statement(i)
		r.expression(i)
	}
	for i, t := range r.tokens {
		switch {
		case t.kind == pyString && strings.Contains(t.text, contextVariable) && !r.known[i]:
			r.doubt(i, "it uses "+contextVariable+" in a way that is not understood")
		case t.kind == pyString && t.formatted:
			for name, v := range r.vars {
				if v > pyFirst && strings.Contains(t.text, name) {
					r.doubt(i, "it uses "+name+" in a text")
				}
			}
		case t.kind == pyName && r.vars[t.text] > pyFirst && !r.known[i] && !r.is(i-1, "."):
			r.doubt(i, "it uses "+t.text+" in a way that is not understood")
		case t.kind == pyName:
			r.name(i)
		}
	}
}

// is reports whether the tokens from i on are these. The empty string is any string.
func (r *pythonReader) is(i int, texts ...string) bool {
	if i < 0 || i+len(texts) > len(r.tokens) {
		return false
	}
	for n, text := range texts {
		t := r.tokens[i+n]
		if text == "" && t.kind != pyString || text != "" && (t.text != text || t.kind == pyString) {
			return false
		}
	}
	return true
}

// startsStatement reports whether a statement begins at i.
func (r *pythonReader) startsStatement(i int) bool {
	return i == 0 || r.is(i-1, "\n") || r.is(i-1, ":") || r.is(i-1, ";")
}

// statement learns what a name stands for.
func (r *pythonReader) statement(i int) {
	if r.startsStatement(i) && r.tokens[i].kind == pyName && r.is(i+1, "=") {
		for _, v := range []pythonValue{pyFirst, pyContexts, pyFile, pyPath} {
			if end, ok := r.value(i+2, v); ok && r.is(end, "\n") {
				r.learn(i, v)
				r.mark(i, end)
			}
		}
	}
	if r.is(i, "as") && i+1 < len(r.tokens) && r.is(i+2, ":") {
		for start := i - 1; start >= 0 && !r.is(start, "\n"); start-- {
			if end, ok := r.value(start, pyFile); ok && end == i && r.is(start-1, "with") {
				r.learn(i+1, pyFile)
				r.mark(start, i+2)
			} else if r.is(start, "with", "open") {
				r.known[i+1] = true // another file with this name
			}
		}
	}
}

// learn sets the meaning of the name at i. A name with two meanings is never understood.
func (r *pythonReader) learn(i int, v pythonValue) {
	name := r.tokens[i].text
	if was := r.vars[name]; was != pyNone && was != v {
		r.doubt(i, name+" has the contexts and something else")
		return
	}
	r.vars[name] = v
}

func (r *pythonReader) mark(from, to int) {
	for i := from; i < to; i++ {
		r.known[i] = true
	}
}

// value reports where an expression ends that has a value.
func (r *pythonReader) value(i int, v pythonValue) (end int, ok bool) {
	if i < 0 || i >= len(r.tokens) || r.is(i-1, ".") {
		return i, false
	}
	if t := r.tokens[i]; t.kind == pyName && r.vars[t.text] == v {
		return i + 1, true
	}
	switch v {
	case pyPath:
		return r.path(i)
	case pyFile:
		if !r.is(i, "open", "(") {
			return i, false
		}
		if end, ok = r.value(i+2, pyPath); ok {
			end, ok = r.closing(end)
		}
	case pyContexts:
		loads := r.is(i, "json", ".", "loads", "(")
		if !loads && !r.is(i, "json", ".", "load", "(") {
			return i, false
		}
		if end, ok = r.value(i+4, pyFile); ok && loads {
			ok = r.is(end, ".", "read", "(", ")")
			end += 4
		}
		ok, end = ok && r.is(end, ")"), end+1
	case pyFirst:
		end, ok = r.value(i, pyContexts)
		ok, end = ok && r.is(end, "[", "0", "]"), end+3
	}
	return end, ok
}

// path is the variable with the path, by one of its usual spellings.
func (r *pythonReader) path(i int) (end int, ok bool) {
	start := i
	if r.is(i, "os", ".") {
		i += 2
	}
	for _, before := range [][]string{{"environ", "[", ""}, {"environ", ".", "get", "(", ""}, {"getenv", "(", ""}} {
		at := i + len(before) - 1
		if r.is(i, before...) && r.tokens[at].text == contextVariable && !r.tokens[at].formatted {
			if r.is(at+1, ",", "", ")") {
				return at + 4, true
			}
			return at + 2, r.is(at+1, "]") || r.is(at+1, ")")
		}
	}
	return start, false
}

// closing is the place behind the parenthesis that ends a call, when only options follow.
func (r *pythonReader) closing(i int) (end int, ok bool) {
	for ; i < len(r.tokens) && !r.is(i, "("); i++ {
		if r.is(i, ")") {
			return i + 1, true
		}
	}
	return i, false
}

// expression understands uses of the contexts that are no assignments.
func (r *pythonReader) expression(i int) {
	if end, ok := r.value(i, pyFirst); ok && !r.is(i-1, "del") {
		r.mark(i, end)
		r.member(i)
	}
	for _, v := range []pythonValue{pyPath, pyFile, pyContexts} {
		end, ok := r.value(i, v)
		if !ok {
			continue
		}
		tested := (r.is(i-1, "if") || r.is(i-1, "not")) && (r.is(end, ":") || r.is(end, "or") || r.is(end, "and"))
		exists := v == pyPath && r.is(i-1, "(") && (r.is(i-2, "exists") || r.is(i-2, "isfile")) && r.is(end, ")")
		closed := v == pyFile && (r.is(end, ".", "close", "(") || r.is(end, ".", "write", "("))
		if tested || exists || closed {
			r.mark(i, end)
		}
	}
}

// member records the member that is read of the first context at i.
func (r *pythonReader) member(i int) {
	end, ok := r.value(i, pyFirst)
	if !ok {
		return
	}
	at := end + 1
	if r.is(end, ".", "get", "(", "") {
		at = end + 3
	} else if !r.is(end, "[", "", "]") {
		return
	}
	r.result.Members = append(r.result.Members, Member{r.tokens[at].text, r.source.place(r.tokens[at].line)})
}

// Names that can read what the script does not name, and modules that cannot.
var (
	pythonOpaque  = words("eval exec compile globals locals vars getattr __import__ __dict__ __builtins__ importlib runpy inspect gc")
	pythonModules = words(`
		argparse asyncio base64 binascii calendar collections concurrent configparser contextlib copy csv dataclasses datetime decimal
		difflib enum errno fnmatch functools getpass glob hashlib hmac html http io ipaddress itertools json locale logging math operator
		os pathlib pprint queue random re secrets shlex shutil signal socket ssl stat statistics string struct subprocess sys tempfile
		textwrap threading time timeit traceback typing unicodedata urllib uuid warnings xml zlib __future__
		boto3 botocore cryptography dateutil elasticsearch httpx jinja2 jmespath jsonpatch jsonschema kafka kubernetes ldap3 mysql
		openshift pika prometheus_client psycopg2 pymongo pymysql pytz redis requests ruamel slack_sdk tenacity toml urllib3 yaml`)
)

// name checks a name that has no contexts: modules, and calls of programs.
func (r *pythonReader) name(i int) {
	text := r.tokens[i].text
	switch {
	case pythonOpaque[text],
		text == "environ" && !r.is(i+1, "[", "", "]") && !r.is(i+1, ".", "get", "(", "") && !r.is(i-1, "import"),
		text == "getenv" && !r.is(i+1, "(", "") && !r.is(i-1, "import"):
		r.doubt(i, "it uses "+text+" in a way that is not understood")
	case text == "import" && r.startsStatement(i), text == "from" && r.startsStatement(i):
		for at := i + 1; at < len(r.tokens) && !r.is(at, "\n"); at++ {
			if t := r.tokens[at]; (at == i+1 || text == "import" && r.is(at-1, ",")) && !pythonModules[t.text] {
				r.doubt(i, "it imports "+t.text+", which may read the contexts")
			}
			if text == "from" {
				break
			}
		}
	case startsProgram(text) && r.is(i+1, "("), (text == "run" || text == "call") && r.is(i-2, "subprocess", "."):
		at := i + 2
		if r.is(at, "[") {
			at++
		}
		if !r.is(at, "") || !isHarmlessLine(r.tokens[at]) {
			r.doubt(i, "it starts a program that may read the contexts")
		}
	}
}

func startsProgram(function string) bool {
	return slices.Contains([]string{"system", "popen", "Popen", "check_output", "check_call", "getoutput", "getstatusoutput"}, function) ||
		slices.ContainsFunc([]string{"exec", "spawn", "posix_spawn", "create_subprocess"}, func(prefix string) bool { return strings.HasPrefix(function, prefix) })
}

// isHarmlessLine reports a text that starts one program that cannot read the contexts.
func isHarmlessLine(t token) bool {
	fields := strings.Fields(t.text)
	return !t.formatted && len(fields) > 0 && harmless[fields[0]] && !strings.ContainsAny(t.text, "|;&$`<>\n")
}

// token is a token of Python. A line end counts only outside of brackets.
type token struct {
	kind int
	text string
	line int
	// formatted strings have expressions in them.
	formatted bool
}

const (
	pyOther = iota
	pyName
	pyString
)

// pythonTokens returns false for a text that ends within a string.
func pythonTokens(text string) (tokens []token, ok bool) {
	line, depth := 1, 0
	isNamePart := func(c byte) bool {
		return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
	}
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n':
			if depth <= 0 && len(tokens) > 0 && tokens[len(tokens)-1].text != "\n" {
				tokens = append(tokens, token{line: line, text: "\n"})
			}
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '\\' && i+1 < len(text) && text[i+1] == '\n':
			line++
			i += 2
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case isNamePart(c):
			start := i
			for i < len(text) && isNamePart(text[i]) {
				i++
			}
			word := text[start:i]
			if i < len(text) && (text[i] == '"' || text[i] == '\'') && len(word) <= 2 && strings.Trim(strings.ToLower(word), "rbfu") == "" {
				continue // the prefix of a string, which is read next
			}
			tokens = append(tokens, token{kind: pyName, text: word, line: line})
		case c == '"' || c == '\'':
			end, value := pythonString(text[i:])
			if end < 0 {
				return nil, false
			}
			prefix := ""
			for p := i - 1; p >= 0 && isNamePart(text[p]) && len(prefix) < 2; p-- {
				prefix += strings.ToLower(text[p : p+1])
			}
			tokens = append(tokens, token{kind: pyString, text: value, line: line, formatted: strings.Contains(prefix, "f")})
			line += strings.Count(text[i:i+end], "\n")
			i += end
		default:
			if strings.IndexByte("([{", c) >= 0 {
				depth++
			} else if strings.IndexByte(")]}", c) >= 0 {
				depth--
			}
			tokens = append(tokens, token{text: string(c), line: line})
			i++
		}
	}
	return slices.Concat(tokens, []token{{text: "\n", line: line}}), true
}

// pythonString returns the length of the string at the beginning of text, and its content; -1 if it does not end.
func pythonString(text string) (end int, value string) {
	quote := text[:1]
	if strings.HasPrefix(text, strings.Repeat(quote, 3)) {
		quote = strings.Repeat(quote, 3)
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case text[i] == '\n' && len(quote) == 1:
			return -1, ""
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote), text[len(quote):i]
		}
	}
	return -1, ""
}
