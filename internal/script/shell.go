package script

import (
	"path"
	"slices"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/shell-operator/shell-operator/internal/jq"
)

// contextVariable has the path of the file with the contexts.
const contextVariable = "BINDING_CONTEXT_PATH"

// value is what a word, a variable, or the input or output of a command may contain of the contexts.
type value int

const (
	// detached is anything else, such as members of the first context.
	detached value = iota
	// first is the first context, all the array, filePath the path of the file.
	first
	all
	filePath
)

// shellReader follows the file of the contexts through a script: variables that have its path or its text, pipes and
// redirections into jq, and the filters there. Every use that it does not know is a doubt. It ignores the order of
// commands: a variable may have each value that is assigned to it anywhere.
type shellReader struct {
	dir       Directory
	dialect   syntax.LangVariant
	files     []shellFile
	functions map[string]bool
	vars      map[string]value

	// The state of one pass: the expansions and statements that are understood, and the file that is being read.
	known   map[*syntax.ParamExp]bool
	done    map[*syntax.Stmt]bool
	names   map[*syntax.Lit]bool
	current Source
	result  Reading
}

type shellFile struct {
	source Source
	// name is the path below the hooks directory.
	name string
	tree *syntax.File
}

func readsOfShell(s Source, dialect syntax.LangVariant, dir Directory) Reading {
	r := &shellReader{dir: dir, dialect: dialect, functions: map[string]bool{}, vars: map[string]value{contextVariable: filePath}}
	if !r.add(s, dir.Name) {
		return r.result
	}
	for {
		before := len(r.vars)
		total := r.total()
		r.pass()
		if len(r.vars) == before && r.total() == total {
			return r.result
		}
	}
}

// total grows with each pass that learns something about a variable.
func (r *shellReader) total() (n int) {
	for _, v := range r.vars {
		n += int(v)
	}
	return n
}

// maxLibraries bounds the sourced files of a script.
const maxLibraries = 50

// add parses a file and the files that it sources. It returns false when the result is a doubt.
func (r *shellReader) add(s Source, name string) bool {
	r.current = s
	tree, err := s.Parse(r.dialect)
	if err != nil || len(r.files) == maxLibraries {
		r.result = Reading{Doubt: Place{Path: s.Path}, Why: "its syntax is not understood"}
		return false
	}
	r.files = append(r.files, shellFile{s, name, tree})
	ok := true
	syntax.Walk(tree, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.FuncDecl:
			if n.Name != nil {
				r.functions[n.Name.Value] = true
			}
		case *syntax.CallExpr:
			if ok && len(n.Args) > 1 {
				ok = r.addText(tree, n, s, name)
				r.current = s
			}
		}
		return ok
	})
	return ok
}

// addText parses what a command runs in the shell of the script: a sourced file, or the text of a trap.
func (r *shellReader) addText(by *syntax.File, call *syntax.CallExpr, s Source, name string) bool {
	switch call.Args[0].Lit() {
	case ".", "source":
		return r.addLibrary(by, call, name)
	case "trap":
		if text, ok := literal(call.Args[1]); ok && text != "-" {
			return r.add(Source{Path: s.Path, Text: []byte(text), SourcedIn: s.SourcedIn}, name)
		}
	}
	return true
}

func (r *shellReader) addLibrary(by *syntax.File, call *syntax.CallExpr, name string) bool {
	library, ok := r.dir.sourced(by, call.Args[1], name)
	if slices.ContainsFunc(r.files, func(f shellFile) bool { return ok && f.name == library }) {
		return true
	}
	if ok {
		if text, there := r.dir.Read(library); there {
			return r.add(Source{Path: path.Join(strings.TrimSuffix(r.files[0].source.Path, r.dir.Name), library), Text: text}, library)
		}
	}
	r.result = Reading{Doubt: r.place(call), Why: "it sources a file that cannot be checked"}
	return false
}

func (r *shellReader) place(node syntax.Node) Place { return r.current.place(int(node.Pos().Line())) }

// doubt records the first reason of a pass.
func (r *shellReader) doubt(node syntax.Node, why string) {
	if r.result.Why == "" {
		r.result.Doubt, r.result.Why = r.place(node), why
	}
}

// pass reads all files with what is known about variables.
func (r *shellReader) pass() {
	r.known, r.done, r.names = map[*syntax.ParamExp]bool{}, map[*syntax.Stmt]bool{}, map[*syntax.Lit]bool{}
	r.result = Reading{}
	for _, f := range r.files {
		r.current = f.source
		syntax.Walk(f.tree, r.visit)
	}
}

// visit gets each node after the one that contains it, which may have understood it.
func (r *shellReader) visit(node syntax.Node) bool {
	switch n := node.(type) {
	case *syntax.FuncDecl:
		r.name(n.Name)
	case *syntax.Stmt:
		if !r.done[n] && r.stmt(n, detached) == all {
			r.doubt(n, "it passes on all contexts")
		}
	case *syntax.CallExpr:
		if len(n.Args) > 0 {
			r.exports(n.Assigns)
		}
	case *syntax.DeclClause:
		r.declaration(n)
	case *syntax.Assign:
		r.assign(n)
	case *syntax.UnaryTest:
		if word, ok := n.X.(*syntax.Word); ok && slices.Contains(fileTests, n.Op.String()) {
			r.word(word)
		}
	case *syntax.ParamExp:
		r.expansion(n)
	case *syntax.Lit:
		if !r.names[n] && strings.Contains(n.Value, contextVariable) {
			r.doubt(n, "it mentions "+contextVariable+" in a text")
		}
	case *syntax.SglQuoted:
		if strings.Contains(n.Value, contextVariable) {
			r.doubt(n, "it mentions "+contextVariable+" in a text")
		}
	}
	return true
}

// name marks a literal that is a name and no text.
func (r *shellReader) name(l *syntax.Lit) {
	if l != nil {
		r.names[l] = true
	}
}

func (r *shellReader) expansion(p *syntax.ParamExp) {
	r.name(p.Param)
	switch {
	case p.Excl || p.Names != 0 || p.NestedParam != nil || p.Flags != nil:
		r.doubt(p, "it expands a variable whose name is not in the script")
	case p.Param != nil && r.vars[p.Param.Value] >= all && !r.known[p]:
		r.doubt(p, "it uses $"+p.Param.Value+" in a way that is not understood")
	}
}

func (r *shellReader) declaration(d *syntax.DeclClause) {
	exported := d.Variant.Value == "export"
	for _, a := range d.Args {
		if !a.Naked || a.Value == nil {
			continue
		}
		flags, ok := literal(a.Value)
		if !ok || strings.Contains(flags, "n") {
			r.doubt(d, "it declares a variable that may stand for another one")
		}
		exported = exported || strings.Contains(flags, "x")
	}
	if d.Variant.Value == "nameref" {
		r.doubt(d, "it declares a variable that may stand for another one")
	}
	if exported {
		r.exports(d.Args)
	}
}

// exports covers variables that programs get: these may read the contexts from there.
func (r *shellReader) exports(assigns []*syntax.Assign) {
	for _, a := range assigns {
		switch {
		case a.Name == nil:
		case a.Naked && a.Name.Value != contextVariable && r.vars[a.Name.Value] >= all,
			!a.Naked && a.Value != nil && r.word(a.Value) >= all:
			r.doubt(a, "it exports the contexts to programs")
		}
	}
}

func (r *shellReader) assign(a *syntax.Assign) {
	r.name(a.Name)
	if a.Name == nil || a.Naked {
		return
	}
	name := a.Name.Value
	if name == contextVariable {
		r.doubt(a, "it sets "+contextVariable)
	}
	if a.Value == nil || a.Append || a.Index != nil {
		return // the contexts in the value are a doubt, because nothing marks them as understood
	}
	was, v := r.vars[name], r.word(a.Value)
	if was != detached && v != detached && (was == filePath) != (v == filePath) {
		r.doubt(a, "$"+name+" is the path of the contexts and something else")
	}
	if v > was {
		r.vars[name] = v
	}
}

// word is the value of a word that is one expansion, which is understood with that. All other words are detached, and the
// expansions in them stay to be judged.
func (r *shellReader) word(w *syntax.Word) value {
	parts := w.Parts
	if len(parts) == 1 {
		if q, ok := parts[0].(*syntax.DblQuoted); ok {
			parts = q.Parts
		}
	}
	if len(parts) != 1 {
		return detached
	}
	switch p := parts[0].(type) {
	case *syntax.ParamExp:
		if isPlain(p) {
			r.known[p] = true
			return r.vars[p.Param.Value]
		}
	case *syntax.CmdSubst:
		v := detached
		for _, s := range p.Stmts {
			v = max(v, r.stmt(s, detached))
		}
		return v
	}
	return detached
}

// isPlain reports an expansion to the whole value of a variable, or to a default for an empty one.
func isPlain(p *syntax.ParamExp) bool {
	if p.Param == nil || p.Excl || p.Length || p.Width || p.IsSet || p.Index != nil || p.Slice != nil || p.Repl != nil || p.Names != 0 ||
		len(p.Modifiers) > 0 || p.Flags != nil || p.NestedParam != nil {
		return false
	}
	return p.Exp == nil || slices.Contains([]syntax.ParExpOperator{syntax.DefaultUnset, syntax.DefaultUnsetOrNull, syntax.ErrorUnset, syntax.ErrorUnsetOrNull}, p.Exp.Op)
}

// stmt returns what a statement prints when it reads in. Its parts are visited nevertheless.
func (r *shellReader) stmt(s *syntax.Stmt, in value) value {
	r.done[s] = true
	redirected := false
	for _, d := range s.Redirs {
		if in == all && substitutes(d.Word) {
			r.doubt(d, "a command in it may read all contexts")
		}
		switch d.Op {
		case syntax.RdrIn, syntax.WordHdoc:
			in = r.input(d)
		case syntax.Hdoc, syntax.DashHdoc, syntax.RdrInOut:
			in = detached
		default:
			redirected = redirected || d.N == nil || d.N.Value == "1"
		}
	}
	out := r.command(s, in)
	if redirected && out == all {
		r.doubt(s, "it copies all contexts")
	}
	if redirected {
		return detached
	}
	return out
}

// input is what a redirection or a here-string makes of the standard input.
func (r *shellReader) input(d *syntax.Redirect) value {
	v := r.word(d.Word)
	isFile := d.Op == syntax.RdrIn
	switch {
	case v == detached, v == first && !isFile:
		return v
	case d.N == nil && isFile && v == filePath, d.N == nil && !isFile && v == all:
		return all
	}
	r.doubt(d, "it redirects the contexts in a way that is not understood")
	return detached
}

func (r *shellReader) command(s *syntax.Stmt, in value) value {
	switch c := s.Cmd.(type) {
	case nil:
		return in // $(<file)
	case *syntax.CallExpr:
		return r.call(c, in)
	case *syntax.BinaryCmd:
		if c.Op == syntax.Pipe || c.Op == syntax.PipeAll {
			return r.stmt(c.Y, r.stmt(c.X, in))
		}
		return max(r.stmt(c.X, in), r.stmt(c.Y, in))
	case *syntax.Block:
		return r.stmts(c.Stmts, in)
	case *syntax.Subshell:
		return r.stmts(c.Stmts, in)
	case *syntax.TimeClause:
		if c.Stmt != nil {
			return r.stmt(c.Stmt, in)
		}
	}
	if in == all {
		r.doubt(s, "it reads all contexts")
	}
	return detached
}

func (r *shellReader) stmts(list []*syntax.Stmt, in value) (out value) {
	for _, s := range list {
		out = max(out, r.stmt(s, in))
	}
	return out
}

// call is a simple command.
func (r *shellReader) call(c *syntax.CallExpr, in value) value {
	if in == all && (len(c.Args) == 0 || slices.ContainsFunc(c.Args, substitutes)) {
		r.doubt(c, "a command in it may read all contexts")
	}
	if len(c.Args) == 0 {
		return detached
	}
	name, ok := literal(c.Args[0])
	args := c.Args[1:]
	switch {
	case !ok:
		r.doubt(c, "it calls a command whose name is not in the script")
	case r.functions[name]:
		if in == all {
			r.doubt(c, "its function "+name+" reads all contexts")
		}
	case name == "jq":
		return r.jq(c, args, in)
	case name == "cat":
		return r.cat(c, args, in)
	case name == "echo" || name == "printf":
		return r.print(args)
	case name == "[" || name == "test" || name == "[[":
		r.test(args)
	case name == "." || name == "source":
		// Its file is one of r.files.
	case name == "export" && slices.ContainsFunc(args, func(w *syntax.Word) bool { return w.Lit() != contextVariable && r.vars[w.Lit()] >= all }):
		r.doubt(c, "it exports the contexts to programs")
	case name == "trap" && (len(args) == 0 || isLiteral(args[0])):
		// Its text is one of r.files.
	case !isHarmless(name, args):
		r.doubt(c, "it calls "+name+", which may read the contexts")
	case in == all:
		r.doubt(c, name+" reads all contexts")
	}
	return detached
}

// fileTests are the tests that do not depend on what the file or text contains.
var fileTests = []string{"-e", "-f", "-r", "-s", "-n", "-z"}

func (r *shellReader) test(args []*syntax.Word) {
	for i, a := range args {
		if i > 0 && slices.Contains(fileTests, args[i-1].Lit()) {
			r.word(a)
		}
	}
}

// print is echo or printf.
func (r *shellReader) print(args []*syntax.Word) (out value) {
	for _, a := range args {
		v := r.word(a)
		if v == filePath {
			r.doubt(a, "it prints the path of the contexts")
		}
		out = max(out, v)
	}
	return min(out, all)
}

func (r *shellReader) cat(c *syntax.CallExpr, args []*syntax.Word, in value) (out value) {
	if len(args) == 0 {
		return in
	}
	for _, a := range args {
		switch v := r.word(a); {
		case v == filePath:
			out = all
		case a.Lit() == "-":
			out = max(out, in)
		case v != detached || in == all:
			r.doubt(c, "cat reads the contexts in a way that is not understood")
		}
	}
	return out
}

// jq reads a file, or its input, with a filter that must be in the script as it is.
func (r *shellReader) jq(c *syntax.CallExpr, args []*syntax.Word, in value) value {
	call, ok := parseJQ(args)
	if len(call.files) == 1 && ok {
		switch in = r.word(call.files[0]); in {
		case filePath:
			in = all
		case all:
			r.doubt(c, "it uses the contexts as the name of a file")
		}
	} else if len(call.files) > 1 {
		in = detached // the path of the contexts among them is a doubt
	}
	if in == detached {
		return detached
	}
	text, constant := "", false
	if call.filter != nil {
		text, constant = literal(call.filter)
	}
	switch {
	case !ok:
		r.doubt(c, "it calls jq with an option that may change what is read")
		return in
	case !constant && in == first:
		return detached
	case !constant:
		r.doubt(c, "its jq filter depends on variables")
		return detached
	case call.noInput:
		if strings.Contains(text, "input") {
			r.doubt(c, "its jq filter reads all contexts")
		}
		return detached
	}
	extent := jq.First
	if in == all {
		extent = jq.All
	}
	out, members, ok := jq.Reads(text, extent)
	if !ok && in == all {
		r.doubt(c, "its jq filter may read more than the first context")
		return detached
	}
	for _, m := range members {
		r.result.Members = append(r.result.Members, Member{m, r.place(c)})
	}
	switch out {
	case jq.All:
		return in
	case jq.First:
		return first
	}
	return detached
}
