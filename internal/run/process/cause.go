package process

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Failure is a report by the library of a hook: the place in the hook, and the command that failed there or the message of an exception.
type Failure struct {
	Message, Command, File, Function string
	Line                             int
}

// ParseFailure reads a Failure, which is the first value of a file. It is zero for a text in another form.
func ParseFailure(text []byte) (f Failure) {
	if json.NewDecoder(strings.NewReader(string(text))).Decode(&f) != nil {
		return Failure{}
	}
	return f
}

// maxCause is the largest number of characters of a Line.
const maxCause = 200

// Printable escapes control characters, but for line ends and tabs.
func Printable(text string) string {
	var b strings.Builder
	for _, r := range strings.ToValidUTF8(text, "\uFFFD") {
		if quoted := strconv.QuoteToGraphic(string(r)); !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}

// Line joins a text and an addition on one line without control characters. A long text is cut.
func Line(text, addition string) string {
	text, addition = words(text), Printable(addition)
	if room := max(20, maxCause-utf8.RuneCountInString(addition)); utf8.RuneCountInString(text) > room {
		text = string([]rune(text)[:room-2]) + " …"
	}
	return text + addition
}

func words(text string) string {
	return Printable(strings.Join(strings.FieldsFunc(text, func(r rune) bool { return r == '\n' || r == '\r' || r == '\t' }), " "))
}

// Cause is the reason of a failure on one line: what has failed, and where. Without a message it is, in this order, the message of the
// library, the meaningful line of stderr, and that there is none.
func (e *ExitError) Cause(message string) string {
	root := e.File[:len(e.File)-len(e.below())]
	shown, at := meaning(e.Stderr, root, e.Known.File != "")
	if f := e.Known; f.File != "" {
		at = place{f.File, strconv.Itoa(f.Line), f.Function}
	} else if at.function == "" {
		at.function = f.Function
	}
	switch command := "`" + Line(e.Known.Command, "") + "`"; {
	case message != "":
	case e.Known.Message != "":
		message = e.Known.Message
	case isTest.MatchString(e.Known.Command) && e.Known.File == "":
		message = fmt.Sprintf("the last command of `%s` returned %s and printed nothing"+aTest, e.Known.Function, e.code())
		at = place{}
	case isTest.MatchString(e.Known.Command):
		message = command + " returned " + e.code() + " and printed nothing" + aTest
	case shown != "":
		message = remedied(shown)
	case e.Known.Command != "":
		message = command + " printed nothing: " + e.Status
	default:
		if message = "it printed nothing: " + e.Status; isShell(e.File) && e.Known.Function == "" && e.code() == "1" {
			message += aTest
		}
	}
	message, at.file = strings.ReplaceAll(message, orNone(root), ""), strings.TrimPrefix(at.file, root)
	return Line(message, at.String()+e.Hint())
}

// Reason is the status and the cause.
func (e *ExitError) Reason() string {
	cause := e.Cause("")
	if strings.Contains(cause, e.Status) {
		return cause
	}
	return e.Status + ": " + cause
}

// aTest is the usual reason of a shell script for an end without a message.
const aTest = "; a test such as `[[ … ]] && …` at its end? write `if`"

var isTest = regexp.MustCompile(`^(\[\[|\(\(|\[|test)\s`)

// code is the exit status as a number.
func (e *ExitError) code() string { return strings.TrimPrefix(e.Status, "exit status ") }

// below is the part of the path of the file below the directory of hooks; all of it if the file has another name than the hook.
func (e *ExitError) below() string {
	if strings.HasSuffix(e.File, "/"+e.Hook) {
		return e.Hook
	}
	return e.File
}

// orNone is a text to replace: an empty one is in each text.
func orNone(root string) string {
	if root == "" {
		return "\x00"
	}
	return root
}

// isShell reports whether a file is a script for a shell.
func isShell(path string) bool {
	line, _, _ := strings.Cut(headOf(path), "\n")
	fields := strings.Fields(strings.TrimPrefix(line, "#!"))
	return strings.HasPrefix(line, "#!") && slices.ContainsFunc(fields, func(f string) bool {
		return slices.Contains([]string{"sh", "bash", "dash", "ash", "ksh", "zsh"}, filepath.Base(f))
	})
}

// place is where a program has failed.
type place struct{ file, line, function string }

// String follows what has failed.
func (p place) String() string {
	text := p.file
	if p.line != "" {
		text += ":" + p.line
	}
	if p.function != "" {
		text += ", in " + p.function
	}
	if text = strings.TrimPrefix(text, ", "); text == "" {
		return ""
	}
	return " (" + text + ")"
}
